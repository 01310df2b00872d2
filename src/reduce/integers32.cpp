// Integers of 32 bits.
#include "reduce/loops.h"

namespace tbccl::reduce {

Kernel integer32_kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclInt32 ? integer_kernel<int32_t>(op) : integer_kernel<uint32_t>(op);
}

Scaling integer32_scaling() { return scale_loop<Integer<uint32_t>>; }

}  // namespace tbccl::reduce
