// float16 and bfloat16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/floats16.cpp"
#include "reduce/loops.h"
#include "reduce/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {
namespace {

using Half = Small<Float16, uint16_t>;
using Brain = Small<Bfloat16, uint16_t>;

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
#if TBCCL_VECTORS
  return type == tbcclFloat16 ? lanes_kernel<HalfLanes>(op) : lanes_kernel<BrainLanes>(op);
#else
  return type == tbcclFloat16 ? real_kernel<Half>(op) : real_kernel<Brain>(op);
#endif
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclFloat16 ? scale_loop<Half> : scale_loop<Brain>;
}

}  // namespace
}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tbccl::reduce {

const Family kFloats16 = {TBCCL_FOR_TARGETS(kernel), TBCCL_FOR_TARGETS(scaling)};

}  // namespace tbccl::reduce
#endif
