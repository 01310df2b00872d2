// float32 and float64.
#include "reduce/loops.h"

namespace tbccl::reduce {

Kernel float_kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclFloat32 ? real_kernel<Real<float>>(op) : real_kernel<Real<double>>(op);
}

Scaling float_scaling(tbcclDataType_t type) {
  return type == tbcclFloat32 ? scale_loop<Real<float>> : scale_loop<Real<double>>;
}

}  // namespace tbccl::reduce
