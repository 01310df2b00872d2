// Truth values: a byte, true when it is not zero; results are 0 or 1.
#include "reduce/loops.h"

namespace tbccl::reduce {

Kernel bool_kernel(tbcclRedOp_t op) {
  switch (op) {
    case tbcclMin:
    case tbcclBitAnd:
    case tbcclLogicalAnd:
      return kernel_of<Boolean, BitAnd>();
    case tbcclMax:
    case tbcclBitOr:
    case tbcclLogicalOr:
      return kernel_of<Boolean, BitOr>();
    case tbcclBitXor:
    case tbcclLogicalXor:
      return kernel_of<Boolean, BitXor>();
    default:
      return {};
  }
}

}  // namespace tbccl::reduce
