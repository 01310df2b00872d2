// float16 and bfloat16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/floats16.cpp"
#include "reduce/loops.h"
#include "reduce/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {
namespace {

#if TBCCL_VECTORS

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat16 ? lanes_kernel<HalfLanes>(op) : lanes_kernel<BrainLanes>(op);
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclFloat16 ? scale_lanes<HalfLanes> : scale_lanes<BrainLanes>;
}

#else

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat16 ? real_kernel<Small<Float16, uint16_t> >(op)
                              : real_kernel<Small<Bfloat16, uint16_t> >(op);
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclFloat16 ? scale_loop<Small<Float16, uint16_t> >
                              : scale_loop<Small<Bfloat16, uint16_t> >;
}

#endif

}  // namespace
}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tbccl::reduce {

const Family kFloats16 = {TBCCL_FOR_TARGETS(kernel), TBCCL_FOR_TARGETS(scaling)};

}  // namespace tbccl::reduce
#endif
