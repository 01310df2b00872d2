// float8, OCP e4m3fn and e5m2.
#include "reduce/loops.h"

namespace tbccl::reduce {
namespace {

using E4m3 = Small<Float8e4m3, uint8_t>;
using E5m2 = Small<Float8e5m2, uint8_t>;

}  // namespace

Kernel float8_kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat8e4m3 ? real_kernel<E4m3>(op) : real_kernel<E5m2>(op);
}

Scaling float8_scaling(tbcclDataType_t type) {
  return type == tbcclFloat8e4m3 ? scale_loop<E4m3> : scale_loop<E5m2>;
}

}  // namespace tbccl::reduce
