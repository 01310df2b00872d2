// Integers of 8 bits.
#include "reduce/loops.h"

namespace tbccl::reduce {

Kernel integer8_kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclInt8 ? integer_kernel<int8_t>(op) : integer_kernel<uint8_t>(op);
}

Scaling integer8_scaling() { return scale_loop<Integer<uint8_t>>; }

}  // namespace tbccl::reduce
