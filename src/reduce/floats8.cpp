// float8, OCP e4m3fn and e5m2.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/floats8.cpp"
#include "reduce/loops.h"
#include "reduce/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {
namespace {

#if TBCCL_VECTORS

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat8e4m3 ? lanes_kernel<EighthLanes<Float8e4m3>>(op)
                                 : lanes_kernel<EighthLanes<Float8e5m2>>(op);
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclFloat8e4m3 ? scale_lanes<EighthLanes<Float8e4m3>>
                                 : scale_lanes<EighthLanes<Float8e5m2>>;
}

#else

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat8e4m3 ? real_kernel<Small<Float8e4m3, uint8_t>>(op)
                                 : real_kernel<Small<Float8e5m2, uint8_t>>(op);
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclFloat8e4m3 ? scale_loop<Small<Float8e4m3, uint8_t>>
                                 : scale_loop<Small<Float8e5m2, uint8_t>>;
}

#endif

}  // namespace
}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tbccl::reduce {

const Family kFloats8 = {TBCCL_FOR_TARGETS(kernel), TBCCL_FOR_TARGETS(scaling)};

}  // namespace tbccl::reduce
#endif
