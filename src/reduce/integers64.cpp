// Integers of 64 bits.
#include "reduce/loops.h"

namespace tbccl::reduce {

Kernel integer64_kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclInt64 ? integer_kernel<int64_t>(op) : integer_kernel<uint64_t>(op);
}

Scaling integer64_scaling() { return scale_loop<Integer<uint64_t>>; }

}  // namespace tbccl::reduce
