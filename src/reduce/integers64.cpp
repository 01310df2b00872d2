// Integers of 64 bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/integers64.cpp"
#include "reduce/loops.h"

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {
namespace {

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclInt64 ? integer_kernel<int64_t>(op) : integer_kernel<uint64_t>(op);
}

// The sign does not matter.
Scaling scaling(tbcclDataType_t) { return scale_loop<Integer<uint64_t>>; }

}  // namespace
}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tbccl::reduce {

const Family kIntegers64 = {TBCCL_FOR_TARGETS(kernel), TBCCL_FOR_TARGETS(scaling)};

}  // namespace tbccl::reduce
#endif
