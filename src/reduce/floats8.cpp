// float8, OCP e4m3fn and e5m2.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/floats8.cpp"
#include "reduce/loops.h"
#include "reduce/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {
namespace {

using E4m3 = Small<Float8e4m3, uint8_t>;
using E5m2 = Small<Float8e5m2, uint8_t>;

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
#if TBCCL_VECTORS
  return type == tbcclFloat8e4m3 ? lanes_kernel<EighthLanes<Float8e4m3>>(op)
                                 : lanes_kernel<EighthLanes<Float8e5m2>>(op);
#else
  return type == tbcclFloat8e4m3 ? real_kernel<E4m3>(op) : real_kernel<E5m2>(op);
#endif
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclFloat8e4m3 ? scale_loop<E4m3> : scale_loop<E5m2>;
}

}  // namespace
}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tbccl::reduce {

const Family kFloats8 = {TBCCL_FOR_TARGETS(kernel), TBCCL_FOR_TARGETS(scaling)};

}  // namespace tbccl::reduce
#endif
