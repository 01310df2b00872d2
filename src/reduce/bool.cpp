// Truth values: a byte, true when it is not zero; results are 0 or 1. They are not scaled.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/bool.cpp"
#include "reduce/loops.h"

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {
namespace {

Kernel kernel(tbcclDataType_t, tbcclRedOp_t op) {
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

}  // namespace
}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tbccl::reduce {

const Family kBools = {TBCCL_FOR_TARGETS(kernel), {}};

}  // namespace tbccl::reduce
#endif
