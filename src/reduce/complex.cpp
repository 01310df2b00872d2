// complex64 and complex128. Sums, averages and the NaN rule work on the two parts alone, so they
// are those of twice as many real numbers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/complex.cpp"
#include "reduce/loops.h"
#include "reduce/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {
namespace {

#if TBCCL_VECTORS
template <class T>
constexpr Kernel kSums = {combine_lanes<RealLanes<T>, SumLanes>,
                          fold_lanes<RealLanes<T>, SumLanes>};
template <class T>
constexpr Kernel kProducts = {combine_complex<T>, fold_complex<T>};
template <class T>
constexpr Scaling kScaling = scale_complex<T>;
#else
template <class T>
constexpr Kernel kSums = {combine_loop<Real<T>, Sum>, fold_loop<Real<T>, Sum>};
template <class T>
constexpr Kernel kProducts = {combine_loop<Complex<T>, Product>, fold_loop<Complex<T>, Product>};
template <class T>
constexpr Scaling kScaling = scale_loop<Complex<T> >;
#endif

template <class T>
void combine_parts(void* dst, void* also, const void* a, const void* b, size_t count,
                   int32_t divisor) {
  kSums<T>.combine(dst, also, a, b, 2 * count, divisor);
}

template <class T>
void fold_parts(void* dst, void* also, const void* const* sources, int k, size_t count,
                int32_t divisor) {
  kSums<T>.fold(dst, also, sources, k, 2 * count, divisor);
}

template <class T>
Kernel kernel_for(tbcclRedOp_t op) {
  switch (op) {
    case tbcclSum:
    case tbcclAvg:
      return {combine_parts<T>, fold_parts<T>};
    case tbcclProd:
      return kProducts<T>;
    default:
      return {};
  }
}

Kernel kernel(tbcclDataType_t type, tbcclRedOp_t op) {
  return type == tbcclComplex64 ? kernel_for<float>(op) : kernel_for<double>(op);
}

Scaling scaling(tbcclDataType_t type) {
  return type == tbcclComplex64 ? kScaling<float> : kScaling<double>;
}

}  // namespace
}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tbccl::reduce {

const Family kComplexes = {TBCCL_FOR_TARGETS(kernel), TBCCL_FOR_TARGETS(scaling)};

}  // namespace tbccl::reduce
#endif
