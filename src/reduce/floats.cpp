// float32 and float64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/floats.cpp"
#include "reduce/loops.h"
#include "reduce/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {
namespace {

#if TBCCL_VECTORS

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat32 ? lanes_kernel<RealLanes<float>>(op)
                              : lanes_kernel<RealLanes<double>>(op);
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclFloat32 ? scale_lanes<RealLanes<float>> : scale_lanes<RealLanes<double>>;
}

#else

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat32 ? real_kernel<Real<float>>(op) : real_kernel<Real<double>>(op);
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclFloat32 ? scale_loop<Real<float>> : scale_loop<Real<double>>;
}

#endif

}  // namespace
}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tbccl::reduce {

const Family kFloats = {TBCCL_FOR_TARGETS(kernel), TBCCL_FOR_TARGETS(scaling)};

}  // namespace tbccl::reduce
#endif
