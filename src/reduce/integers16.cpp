// Integers of 16 bits.
#include "reduce/loops.h"

namespace tbccl::reduce {

Kernel integer16_kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclInt16 ? integer_kernel<int16_t>(op) : integer_kernel<uint16_t>(op);
}

Scaling integer16_scaling() { return scale_loop<Integer<uint16_t>>; }

}  // namespace tbccl::reduce
