// float16 and bfloat16.
#include "reduce/loops.h"

namespace tbccl::reduce {
namespace {

using Half = Small<Float16, uint16_t>;
using Brain = Small<Bfloat16, uint16_t>;

}  // namespace

Kernel float16_kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat16 ? real_kernel<Half>(op) : real_kernel<Brain>(op);
}

Scaling float16_scaling(tbcclDataType_t type) {
  return type == tbcclFloat16 ? scale_loop<Half> : scale_loop<Brain>;
}

}  // namespace tbccl::reduce
