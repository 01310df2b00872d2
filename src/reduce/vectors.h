// Real and complex numbers as vectors: what elements.h and operators.h say of one, for as many as a
// register holds. Needs Highway; the same bits as the plain loops, by the same steps.
//
//   Stored   what lies in a buffer                  load     some of them, widened, exact
//   Tag      the lanes that operators work on       narrow   as many results, rounded, NaN
//   canonical
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "reduce/loops.h"

// Once for each instruction set.
#if defined(TBCCL_REDUCE_VECTORS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TBCCL_REDUCE_VECTORS_H
#undef TBCCL_REDUCE_VECTORS_H
#else
#define TBCCL_REDUCE_VECTORS_H
#endif

#if TBCCL_VECTORS

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// --- elements ---

template <class T>
struct RealLanes {
  static constexpr size_t kVectors = 1;
  using Stored = T;
  using Plain = Real<T>;
  using Tag = hn::ScalableTag<T>;
  using V = hn::Vec<Tag>;
  static HWY_INLINE V load(const T* from) { return hn::LoadU(Tag(), from); }
  static HWY_INLINE V canonical(V value) {
    const V nan = hn::Set(Tag(), std::numeric_limits<T>::quiet_NaN());
    return hn::IfThenElse(hn::IsNaN(value), nan, value);
  }
  static HWY_INLINE V narrow(V value) { return canonical(value); }
};

// What is widened to float32.
struct WidenedLanes {
  using Tag = hn::ScalableTag<float>;
  using Int = hn::RebindToSigned<Tag>;
  using V = hn::Vec<Tag>;
  using I = hn::Vec<Int>;
  static HWY_INLINE I bits(V value) { return hn::BitCast(Int(), value); }
  static HWY_INLINE V number(I bits) { return hn::BitCast(Tag(), bits); }
  static HWY_INLINE I all(int32_t value) { return hn::Set(Int(), value); }
};

// Two vectors, of the elements with even and with odd numbers: so two bytes become four, and four
// two, without leaving their places.
template <class Single>
struct Two {
  Single even, odd;
};

// The upper half of a float32. There are instructions for this on some processors (AVX512_BF16),
// but they take denormals for zeros.
struct BrainLanes : WidenedLanes {
  using Stored = uint16_t;
  using Plain = Small<Bfloat16, uint16_t>;
  using Narrow = hn::Repartition<uint16_t, Tag>;
  using Wide = hn::RebindToUnsigned<Tag>;
  using W = hn::Vec<Wide>;
  static constexpr size_t kVectors = 2;
  static HWY_INLINE Two<V> load(const uint16_t* from) {
    const W both = hn::BitCast(Wide(), hn::LoadU(Narrow(), from));
    return {hn::BitCast(Tag(), hn::ShiftLeft<16>(both)),
            hn::BitCast(Tag(), hn::And(both, hn::Set(Wide(), 0xffff0000u)))};
  }
  static HWY_INLINE hn::Vec<Narrow> narrow(Two<V> value) {
    const W even = hn::ShiftRight<16>(rounded(value.even));
    const auto both =
        hn::OddEven(hn::BitCast(Narrow(), rounded(value.odd)), hn::BitCast(Narrow(), even));
    // The lower half of a NaN is zero here, as it was in the source, or is the processor's own NaN;
    // rounding has not changed its upper half.
    const auto magnitude = hn::And(both, hn::Set(Narrow(), 0x7fff));
    const auto is_nan = hn::Gt(magnitude, hn::Set(Narrow(), 0x7f80));
    return hn::IfThenElse(is_nan, hn::Set(Narrow(), 0x7fc0), both);
  }

 private:
  // To nearest, ties to even, in the upper half.
  static HWY_INLINE W rounded(V value) {
    const W exact = hn::BitCast(Wide(), value);
    const W odd = hn::And(hn::ShiftRight<16>(exact), hn::Set(Wide(), 1));
    return hn::Add(hn::Add(exact, hn::Set(Wide(), 0x7fff)), odd);
  }
};

// The processor's own conversions. They treat denormals of 16 bits as numbers and round as they are
// told, whatever the state of the thread.
struct HalfLanes : WidenedLanes {
  using Stored = uint16_t;
  using Plain = Small<Float16, uint16_t>;
  static constexpr size_t kVectors = 1;
  using Half = hn::Rebind<hwy::float16_t, Tag>;
  using Bits = hn::Rebind<uint16_t, Tag>;
  static HWY_INLINE V load(const uint16_t* from) {
    return hn::PromoteTo(Tag(), hn::BitCast(Half(), hn::LoadU(Bits(), from)));
  }
  static HWY_INLINE hn::Vec<Bits> narrow(V value) {
    return hn::BitCast(Bits(), hn::DemoteTo(Half(), RealLanes<float>::canonical(value)));
  }
};

// float8, by the steps of small_float.h.
template <class Format>
struct EighthLanes : WidenedLanes {
  using Stored = uint8_t;
  using Plain = Small<Format, uint8_t>;
  static constexpr size_t kVectors = 1;
  using Quarter = hn::Rebind<uint8_t, Tag>;
  static HWY_INLINE V load(const uint8_t* from) {
    const I stored = hn::PromoteTo(Int(), hn::LoadU(Quarter(), from));
    const I magnitude = hn::ShiftLeft<Format::kShift>(hn::And(stored, all(Format::kMagnitude)));
    const I sign = hn::ShiftLeft<24>(hn::And(stored, all(Format::kMagnitude + 1)));
    const V smallest = number(all(Format::kSmallestNormal));
    const I denormal =
        bits(hn::Sub(number(hn::Add(magnitude, all(Format::kSmallestNormal))), smallest));
    const I normal = hn::Add(magnitude, all(Format::kRebias));
    I result = hn::IfThenElse(hn::Lt(magnitude, all(1 << 23)), denormal, normal);
    if constexpr (Format::kHasInfinities) {
      const I top = hn::Add(magnitude, all(2 * Format::kRebias + Format::kTopGap));
      const auto is_top = hn::Gt(magnitude, all((Format::kInfinity << Format::kShift) - 1));
      result = hn::IfThenElse(is_top, top, result);
    } else {
      const auto is_nan = hn::Eq(magnitude, all(Format::kNan << Format::kShift));
      result = hn::IfThenElse(is_nan, all(0x7fc00000), result);
    }
    return number(hn::Or(result, sign));
  }
  static HWY_INLINE hn::Vec<Quarter> narrow(V value) {
    const I exact = bits(value);
    const I magnitude = hn::And(exact, all(0x7fffffff));
    const I sign = hn::And(hn::ShiftRight<24>(exact), all(0x80));
    const V step = number(all(Format::kStep));
    const I denormal = hn::Sub(bits(hn::Add(number(magnitude), step)), all(Format::kStep));
    const I odd = hn::And(hn::ShiftRight<Format::kShift>(magnitude), all(1));
    constexpr int32_t kHalfLess = (1 << (Format::kShift - 1)) - 1;
    const I normal = hn::ShiftRight<Format::kShift>(
        hn::Add(hn::Add(magnitude, all(kHalfLess - Format::kRebias)), odd));
    const auto is_small = hn::Lt(magnitude, all(Format::kRebias + (1 << 23)));
    const I result = hn::Min(hn::IfThenElse(is_small, denormal, normal), all(Format::kTop));
    const auto is_nan = [&]() HWY_ATTR {
      if constexpr (Format::kHasInfinities) {
        return hn::Gt(magnitude, all(0x7f800000));
      } else {
        return hn::Eq(result, all(Format::kNan));
      }
    }();
    const I whole = hn::IfThenElse(is_nan, all(Format::kNan), hn::Or(result, sign));
    return hn::DemoteTo(Quarter(), whole);
  }
};

// --- operators ---

struct SumLanes {
  static constexpr size_t kGroup = 1;  // elements that belong together
  using Plain = Sum;
  template <class V>
  HWY_INLINE V apply(V a, V b) const {
    return hn::Add(a, b);
  }
  template <class V>
  HWY_INLINE V finish(V value) const {
    return value;
  }
};

template <class Lanes>
struct AverageLanes : SumLanes {
  typename Lanes::V divisor;
  HWY_INLINE explicit AverageLanes(typename Lanes::V by) : divisor(by) {}
  HWY_INLINE typename Lanes::V finish(typename Lanes::V value) const {
    return hn::Div(value, divisor);
  }
};

struct ProductLanes : SumLanes {
  using Plain = Product;
  template <class V>
  HWY_INLINE V apply(V a, V b) const {
    return hn::Mul(a, b);
  }
};

// a < b ? a : b, which for NaNs and equal numbers is b. That is Min on x86; on Arm Min prefers
// numbers.
template <class V>
HWY_INLINE V lesser(V a, V b) {
#if HWY_ARCH_X86
  return hn::Min(a, b);
#else
  return hn::IfThenElse(hn::Lt(a, b), a, b);
#endif
}

// Both ways round and "or" is the smaller one: of equal numbers only zeros differ, whose signs it
// joins, and what is joined with a NaN is a NaN.
struct MinimumLanes : SumLanes {
  using Plain = Minimum;
  template <class V>
  HWY_INLINE V apply(V a, V b) const {
    return hn::Or(lesser(a, b), lesser(b, a));
  }
};

struct MaximumLanes : SumLanes {
  using Plain = Maximum;
  template <class V>
  HWY_INLINE V apply(V a, V b) const {
    return hn::Neg(MinimumLanes().apply(hn::Neg(a), hn::Neg(b)));
  }
};

// A scaling is the product of a constant, which comes first, and a single source.
template <class Lanes>
struct ScaleLanes : SumLanes {
  typename Lanes::V factor;
  HWY_INLINE explicit ScaleLanes(typename Lanes::V by) : factor(by) {}
  HWY_INLINE typename Lanes::V finish(typename Lanes::V value) const {
    return hn::Mul(factor, value);
  }
};

// Real and imaginary parts in turn.
template <class Lanes>
struct ComplexProductLanes : SumLanes {
  static constexpr size_t kGroup = 2;
  using V = typename Lanes::V;
  HWY_INLINE V apply(V a, V b) const {
    const V left = hn::Mul(hn::DupEven(a), b);
    const V right = hn::Mul(hn::DupOdd(a), hn::Reverse2(typename Lanes::Tag(), b));
    return hn::OddEven(hn::Add(left, right), hn::Sub(left, right));
  }
};

template <class Lanes>
struct ComplexScaleLanes : SumLanes {
  static constexpr size_t kGroup = 2;
  typename Lanes::V factor;
  HWY_INLINE explicit ComplexScaleLanes(typename Lanes::V by) : factor(by) {}
  HWY_INLINE typename Lanes::V finish(typename Lanes::V value) const {
    return ComplexProductLanes<Lanes>().apply(factor, value);
  }
};

// --- loops ---

template <class Operator, class V>
HWY_INLINE V apply(const Operator& op, V a, V b) {
  return op.apply(a, b);
}

template <class Operator, class V>
HWY_INLINE Two<V> apply(const Operator& op, Two<V> a, Two<V> b) {
  return {op.apply(a.even, b.even), op.apply(a.odd, b.odd)};
}

template <class Operator, class V>
HWY_INLINE V finish(const Operator& op, V value) {
  return op.finish(value);
}

template <class Operator, class V>
HWY_INLINE Two<V> finish(const Operator& op, Two<V> value) {
  return {op.finish(value.even), op.finish(value.odd)};
}

// The elements that one load brings.
template <class Lanes>
HWY_INLINE size_t width() {
  return Lanes::kVectors * hn::Lanes(typename Lanes::Tag());
}

// Elements [i, i + width) of all sources, combined.
template <class Lanes, class Operator>
HWY_INLINE auto one(const typename Lanes::Stored* const* sources, int k, size_t i,
                    const Operator& op) {
  auto value = Lanes::load(sources[0] + i);
  for (int j = 1; j < k; ++j) value = apply(op, value, Lanes::load(sources[j] + i));
  return finish(op, value);
}

template <class Lanes, bool kAlso, class Results>
HWY_INLINE void put(Results results, typename Lanes::Stored* dst, typename Lanes::Stored* also,
                    size_t i) {
  const auto rounded = Lanes::narrow(results);
  hn::StoreU(rounded, hn::DFromV<decltype(rounded)>(), dst + i);
  if constexpr (kAlso) hn::StoreU(rounded, hn::DFromV<decltype(rounded)>(), also + i);
}

// How many elements lie before the first at which a whole store is aligned. 0 if there is none.
template <class Lanes, class Operator>
HWY_INLINE size_t unaligned(const typename Lanes::Stored* dst) {
  constexpr size_t kGroupBytes = Operator::kGroup * sizeof(typename Lanes::Stored);
  const size_t bytes = width<Lanes>() * sizeof(typename Lanes::Stored);
  const size_t past = reinterpret_cast<uintptr_t>(dst) % bytes;
  if (past == 0 || past % kGroupBytes != 0) return 0;
  return (bytes - past) / sizeof(typename Lanes::Stored);
}

// Not fewer elements than a load brings. The first and the last of them are computed before any is
// written, because dst may be a source, and stored at the end over some of the others, which have
// the same values: so no loop over single elements is needed, and stores are aligned (those across
// two cache lines cost a third of the speed out of the caches).
template <class Lanes, bool kAlso, class Operator>
HWY_INLINE void sweep(typename Lanes::Stored* dst, typename Lanes::Stored* also,
                      const typename Lanes::Stored* const* sources, int k, size_t count,
                      const Operator& op) {
  const size_t n = width<Lanes>();
  const auto last = one<Lanes>(sources, k, count - n, op);
  const auto head = one<Lanes>(sources, k, 0, op);
  const size_t skipped = count >= 4 * n ? unaligned<Lanes, Operator>(dst) : 0;
  size_t i = skipped;
  for (; i + 2 * n <= count; i += 2 * n) {
    auto v0 = Lanes::load(sources[0] + i);
    auto v1 = Lanes::load(sources[0] + i + n);
    for (int j = 1; j < k; ++j) {
      v0 = apply(op, v0, Lanes::load(sources[j] + i));
      v1 = apply(op, v1, Lanes::load(sources[j] + i + n));
    }
    put<Lanes, kAlso>(finish(op, v0), dst, also, i);
    put<Lanes, kAlso>(finish(op, v1), dst, also, i + n);
  }
  if (i + n <= count) {
    put<Lanes, kAlso>(one<Lanes>(sources, k, i, op), dst, also, i);
    i += n;
  }
  if (i < count) put<Lanes, kAlso>(last, dst, also, count - n);
  if (skipped > 0) put<Lanes, kAlso>(head, dst, also, 0);
}

template <class Lanes, class Operator>
HWY_INLINE void sweep_all(void* dst, void* also, const void* const* sources, int k, size_t count,
                          const Operator& op) {
  using Stored = typename Lanes::Stored;
  const auto* const s = reinterpret_cast<const Stored* const*>(sources);
  if (also != nullptr) {
    sweep<Lanes, true>(static_cast<Stored*>(dst), static_cast<Stored*>(also), s, k, count, op);
  } else {
    sweep<Lanes, false>(static_cast<Stored*>(dst), nullptr, s, k, count, op);
  }
}

template <class Lanes, class Operator>
HWY_INLINE void sweep_divided(void* dst, void* also, const void* const* sources, int k,
                              size_t count, [[maybe_unused]] int32_t divisor) {
  if constexpr (std::is_same_v<Operator, SumLanes>) {
    if (divisor > 1) {
      using Work = hn::TFromD<typename Lanes::Tag>;
      const AverageLanes<Lanes> average(hn::Set(typename Lanes::Tag(), static_cast<Work>(divisor)));
      sweep_all<Lanes>(dst, also, sources, k, count, average);
      return;
    }
  }
  sweep_all<Lanes>(dst, also, sources, k, count, Operator());
}

// Fewer elements than a load brings are left to the plain loops.
template <class Lanes, class Operator>
void combine_lanes(void* dst, void* also, const void* a, const void* b, size_t count,
                   int32_t divisor) {
  if (count < width<Lanes>()) {
    kernel_of<typename Lanes::Plain, typename Operator::Plain>().combine(dst, also, a, b, count,
                                                                         divisor);
    return;
  }
  const void* const sources[] = {a, b};
  sweep_divided<Lanes, Operator>(dst, also, sources, 2, count, divisor);
}

template <class Lanes, class Operator>
void fold_lanes(void* dst, void* also, const void* const* sources, int k, size_t count,
                int32_t divisor) {
  if (count < width<Lanes>()) {
    kernel_of<typename Lanes::Plain, typename Operator::Plain>().fold(dst, also, sources, k, count,
                                                                      divisor);
    return;
  }
  sweep_divided<Lanes, Operator>(dst, also, sources, k, count, divisor);
}

template <class Lanes, class Operator>
Kernel kernel_of_lanes() {
  return {combine_lanes<Lanes, Operator>, fold_lanes<Lanes, Operator>};
}

// Products of complex numbers, as twice as many real ones.
template <class T>
void combine_complex(void* dst, void* also, const void* a, const void* b, size_t count,
                     int32_t divisor) {
  using Lanes = RealLanes<T>;
  if (2 * count < width<Lanes>()) {
    combine_loop<Complex<T>, Product>(dst, also, a, b, count, divisor);
    return;
  }
  const void* const sources[] = {a, b};
  sweep_all<Lanes>(dst, also, sources, 2, 2 * count, ComplexProductLanes<Lanes>());
}

template <class T>
void fold_complex(void* dst, void* also, const void* const* sources, int k, size_t count,
                  int32_t divisor) {
  using Lanes = RealLanes<T>;
  if (2 * count < width<Lanes>()) {
    fold_loop<Complex<T>, Product>(dst, also, sources, k, count, divisor);
    return;
  }
  sweep_all<Lanes>(dst, also, sources, k, 2 * count, ComplexProductLanes<Lanes>());
}

template <class Lanes>
void scale_lanes(void* dst, const void* src, size_t count, const void* scalar) {
  using Plain = typename Lanes::Plain;
  if (count < width<Lanes>()) {
    scale_loop<Plain>(dst, src, count, scalar);
    return;
  }
  const ScaleLanes<Lanes> scale(
      hn::Set(typename Lanes::Tag(), Plain::widen(load<typename Lanes::Stored>(scalar, 0))));
  sweep_all<Lanes>(dst, nullptr, &src, 1, count, scale);
}

template <class T>
void scale_complex(void* dst, const void* src, size_t count, const void* scalar) {
  using Lanes = RealLanes<T>;
  if (2 * count < width<Lanes>()) {
    scale_loop<Complex<T>>(dst, src, count, scalar);
    return;
  }
  const typename Lanes::Tag tag;
  const ComplexScaleLanes<Lanes> scale(
      hn::OddEven(hn::Set(tag, load<T>(scalar, 1)), hn::Set(tag, load<T>(scalar, 0))));
  sweep_all<Lanes>(dst, nullptr, &src, 1, 2 * count, scale);
}

// As real_kernel of loops.h.
template <class Lanes>
Kernel lanes_kernel(tbcclRedOp_t op) {
  switch (op) {
    case tbcclSum:
    case tbcclAvg:
      return kernel_of_lanes<Lanes, SumLanes>();
    case tbcclProd:
      return kernel_of_lanes<Lanes, ProductLanes>();
    case tbcclMax:
      return kernel_of_lanes<Lanes, MaximumLanes>();
    case tbcclMin:
      return kernel_of_lanes<Lanes, MinimumLanes>();
    default:
      return {};
  }
}

}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
