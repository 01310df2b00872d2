// complex64 and complex128. Sums, averages and the NaN rule work on the two parts alone, so they
// are those of twice as many real numbers.
#include "reduce/loops.h"

namespace tbccl::reduce {
namespace {

template <class T>
void combine_parts(void* dst, const void* a, const void* b, size_t count, int32_t divisor) {
  combine_loop<Real<T>, Sum>(dst, a, b, 2 * count, divisor);
}

template <class T>
void fold_parts(void* dst, const void* const* sources, int k, size_t count, int32_t divisor) {
  fold_loop<Real<T>, Sum>(dst, sources, k, 2 * count, divisor);
}

template <class T>
Kernel kernel_for(tbcclRedOp_t op) {
  switch (op) {
    case tbcclSum:
    case tbcclAvg:
      return {combine_parts<T>, fold_parts<T>};
    case tbcclProd:
      return kernel_of<Complex<T>, Product>();
    default:
      return {};
  }
}

}  // namespace

Kernel complex_kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclComplex64 ? kernel_for<float>(op) : kernel_for<double>(op);
}

Scaling complex_scaling(tbcclDataType_t type) {
  return type == tbcclComplex64 ? scale_loop<Complex<float>> : scale_loop<Complex<double>>;
}

}  // namespace tbccl::reduce
