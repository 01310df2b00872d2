// The loops over elements. They are plain so that compilers vectorise them, for each instruction
// set anew (reduce/target.h); two buffers are equal or disjoint, so no iteration depends on
// another, which the compilers have to be told.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "reduce/elements.h"
#include "reduce/kernel.h"
#include "reduce/operators.h"
#include "reduce/target.h"

// Once for each instruction set.
#if defined(TBCCL_REDUCE_LOOPS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TBCCL_REDUCE_LOOPS_H
#undef TBCCL_REDUCE_LOOPS_H
#else
#define TBCCL_REDUCE_LOOPS_H
#endif

#undef TBCCL_INDEPENDENT
#if defined(__clang__)
// Says the same for loops that are not worth vectorising (divisions of integers): no warning.
#pragma clang diagnostic ignored "-Wpass-failed"
#define TBCCL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TBCCL_INDEPENDENT _Pragma("GCC ivdep")
#endif

HWY_BEFORE_NAMESPACE();
namespace tbccl::reduce::HWY_NAMESPACE {

inline constexpr size_t kBlockBytes = 8192;  // of a block that lies in the nearest cache
inline constexpr int kPass = 4;              // sources that a loop reads at once

// Only a sum is ever divided, so only its kernels have the loop for it.
template <class Element, class Operator>
inline constexpr bool kDivides =
    std::is_same_v<Operator, Sum>&& std::is_arithmetic_v<typename Element::Work>;

// Whether operators work on another type than the stored one.
template <class Element>
inline constexpr bool kWidens = !std::is_same_v<typename Element::Stored, typename Element::Work>;

// Elements [first, end) of dst from kSources sources. A single one may be no result yet (a logical
// operator's, a NaN).
// Several loops call it: kept out of them, or every one would have a copy.
template <class Element, class Operator, int kSources, bool kDivide>
__attribute__((noinline)) void pass_range(void* dst, const void* const* sources, size_t first,
                                          size_t end, [[maybe_unused]] int32_t divisor) {
  using Stored = typename Element::Stored;
  // Named one by one: compilers do not take elements of an array out of a loop.
  const void* const s0 = sources[0];
  const void* const s1 = kSources > 1 ? sources[1] : nullptr;
  const void* const s2 = kSources > 2 ? sources[2] : nullptr;
  const void* const s3 = kSources > 3 ? sources[3] : nullptr;
  TBCCL_INDEPENDENT
  for (size_t i = first; i < end; ++i) {
    auto value = Element::widen(load<Stored>(s0, i));
    if constexpr (kSources == 1) value = Operator::first(value);
    if constexpr (kSources > 1) value = Operator::apply(value, Element::widen(load<Stored>(s1, i)));
    if constexpr (kSources > 2) value = Operator::apply(value, Element::widen(load<Stored>(s2, i)));
    if constexpr (kSources > 3) value = Operator::apply(value, Element::widen(load<Stored>(s3, i)));
    if constexpr (kDivide) value = Element::divide(value, divisor);
    store<Stored>(dst, i, Element::narrow(value));
  }
}

// The end of the elements before the first that begins a cache line; `first` if there are few
// elements, or none begins one.
template <class Element>
size_t aligned_from(const void* dst, size_t first, size_t end) {
  constexpr size_t kSize = sizeof(typename Element::Stored), kLine = 64;
  const size_t past = (reinterpret_cast<uintptr_t>(dst) + first * kSize) % kLine;
  if (past == 0 || past % kSize != 0 || (end - first) * kSize < 16 * kLine) return first;
  return first + (kLine - past) / kSize;
}

// In two ranges, so that the stores of the long one are aligned: those across two cache lines cost
// a third of the speed out of the caches.
template <class Element, class Operator, int kSources>
void pass(void* dst, const void* const* sources, size_t first, size_t end, int32_t divisor) {
  auto* range = pass_range<Element, Operator, kSources, false>;
  if constexpr (kDivides<Element, Operator>) {
    if (divisor > 1) range = pass_range<Element, Operator, kSources, true>;
  }
  const size_t aligned = aligned_from<Element>(dst, first, end);
  if (aligned > first) range(dst, sources, first, aligned, divisor);
  range(dst, sources, aligned, end, divisor);
}

// Elements [first, end) of dst, which are in the nearest cache, to the second destination.
template <class Element>
void copy_range(void* also, const void* dst, size_t first, size_t end) {
  constexpr size_t kSize = sizeof(typename Element::Stored);
  std::memcpy(static_cast<unsigned char*>(also) + first * kSize,
              static_cast<const unsigned char*>(dst) + first * kSize, (end - first) * kSize);
}

template <class Element, class Operator>
void combine_loop(void* dst, void* also, const void* a, const void* b, size_t count,
                  int32_t divisor) {
  const void* const sources[] = {a, b};
  const size_t step = also != nullptr ? kBlockBytes / sizeof(typename Element::Stored) : count;
  for (size_t first = 0; first < count; first += step) {
    const size_t end = count - first < step ? count : first + step;
    pass<Element, Operator, 2>(dst, sources, first, end, divisor);
    if (also != nullptr) copy_range<Element>(also, dst, first, end);
  }
}

// Sources beyond those that one pass reads: a block of results so far lies on the stack, and every
// source of a block is read before dst is written, because dst may be any of them.
template <class Element, class Operator>
void fold_block(void* dst, const void* const* sources, int k, size_t first, size_t count,
                int32_t divisor) {
  using Stored = typename Element::Stored;
  alignas(64) unsigned char results[kBlockBytes];
  const auto at = [first](const void* buffer) {
    return static_cast<const void*>(static_cast<const unsigned char*>(buffer) +
                                    first * sizeof(Stored));
  };
  const void* now[kPass] = {at(sources[0]), at(sources[1]), at(sources[2]), at(sources[3])};
  pass<Element, Operator, kPass>(results, now, 0, count, 1);
  now[0] = results;
  int next = kPass;
  for (; k - next >= kPass; next += kPass - 1) {
    for (int j = 1; j < kPass; ++j) now[j] = at(sources[next + j - 1]);
    pass<Element, Operator, kPass>(results, now, 0, count, 1);
  }
  const int left = k - next;  // 1 to 3
  for (int j = 0; j < left; ++j) now[j + 1] = at(sources[next + j]);
  void* const to = static_cast<unsigned char*>(dst) + first * sizeof(Stored);
  if (left == 1) {
    pass<Element, Operator, 2>(to, now, 0, count, divisor);
  } else if (left == 2) {
    pass<Element, Operator, 3>(to, now, 0, count, divisor);
  } else {
    pass<Element, Operator, 4>(to, now, 0, count, divisor);
  }
}

template <class Element, class Operator>
void fold_loop(void* dst, void* also, const void* const* sources, int k, size_t count,
               int32_t divisor) {
  constexpr size_t kBlock = kBlockBytes / sizeof(typename Element::Stored);
  const size_t step = also != nullptr || k > kPass ? kBlock : count;
  for (size_t first = 0; first < count; first += step) {
    const size_t end = count - first < step ? count : first + step;
    switch (k) {
      case 1:
        pass<Element, Operator, 1>(dst, sources, first, end, divisor);
        break;
      case 2:
        pass<Element, Operator, 2>(dst, sources, first, end, divisor);
        break;
      case 3:
        pass<Element, Operator, 3>(dst, sources, first, end, divisor);
        break;
      case 4:
        pass<Element, Operator, 4>(dst, sources, first, end, divisor);
        break;
      default:
        fold_block<Element, Operator>(dst, sources, k, first, end - first, divisor);
    }
    if (also != nullptr) copy_range<Element>(also, dst, first, end);
  }
}

// --- elements whose widening is work (the small float formats) ---
//
// The steps of a block are loops of their own: compilers vectorise each of them, and give up on one
// loop that widens, chooses and rounds.

inline constexpr size_t kWideBlock = 256;  // elements, widened, on the stack

template <class Element>
void widen_block(typename Element::Work* out, const void* source, size_t first, size_t count) {
  TBCCL_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    out[i] = Element::widen(load<typename Element::Stored>(source, first + i));
  }
}

template <class Element>
void narrow_block(void* dst, size_t first, const typename Element::Work* values, size_t count) {
  TBCCL_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    store<typename Element::Stored>(dst, first + i, Element::narrow(values[i]));
  }
}

// Every source of a block is read before the block is written: dst may be any of them.
template <class Element, class Operator>
void fold_wide(void* dst, void* also, const void* const* sources, int k, size_t count,
               [[maybe_unused]] int32_t divisor) {
  typename Element::Work acc[kWideBlock], next[kWideBlock];
  for (size_t first = 0; first < count; first += kWideBlock) {
    const size_t block = count - first < kWideBlock ? count - first : kWideBlock;
    widen_block<Element>(acc, sources[0], first, block);
    for (int j = 1; j < k; ++j) {
      widen_block<Element>(next, sources[j], first, block);
      TBCCL_INDEPENDENT
      for (size_t i = 0; i < block; ++i) acc[i] = Operator::apply(acc[i], next[i]);
    }
    if constexpr (kDivides<Element, Operator>) {
      if (divisor > 1) {
        TBCCL_INDEPENDENT
        for (size_t i = 0; i < block; ++i) acc[i] = Element::divide(acc[i], divisor);
      }
    }
    narrow_block<Element>(dst, first, acc, block);
    if (also != nullptr) copy_range<Element>(also, dst, first, first + block);
  }
}

template <class Element, class Operator>
void combine_wide(void* dst, void* also, const void* a, const void* b, size_t count,
                  int32_t divisor) {
  const void* const sources[] = {a, b};
  fold_wide<Element, Operator>(dst, also, sources, 2, count, divisor);
}

template <class Element>
void scale_loop(void* dst, const void* src, size_t count, const void* scalar) {
  using Stored = typename Element::Stored;
  const auto factor = Element::widen(load<Stored>(scalar, 0));
  TBCCL_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    store<Stored>(dst, i,
                  Element::narrow(Product::apply(factor, Element::widen(load<Stored>(src, i)))));
  }
}

template <class Element, class Operator>
Kernel kernel_of() {
  if constexpr (kWidens<Element>) {
    return {combine_wide<Element, Operator>, fold_wide<Element, Operator>};
  } else {
    return {combine_loop<Element, Operator>, fold_loop<Element, Operator>};
  }
}

// The operators of real numbers of every width.
template <class Element>
Kernel real_kernel(tbcclRedOp_t op) {
  switch (op) {
    case tbcclSum:
    case tbcclAvg:
      return kernel_of<Element, Sum>();
    case tbcclProd:
      return kernel_of<Element, Product>();
    case tbcclMax:
      return kernel_of<Element, Maximum>();
    case tbcclMin:
      return kernel_of<Element, Minimum>();
    default:
      return {};
  }
}

// All operators. What does not depend on the sign has one kernel for both, the unsigned one.
template <class T>
Kernel integer_kernel(tbcclRedOp_t op) {
  using Element = Integer<T>;
  using Unsigned = Integer<std::make_unsigned_t<T>>;
  switch (op) {
    case tbcclSum:
      return kernel_of<Unsigned, Sum>();
    case tbcclAvg:  // the division does depend on it
      return kernel_of<Element, Sum>();
    case tbcclProd:
      return kernel_of<Unsigned, Product>();
    case tbcclMax:
      return kernel_of<Element, Maximum>();
    case tbcclMin:
      return kernel_of<Element, Minimum>();
    case tbcclBitAnd:
      return kernel_of<Unsigned, BitAnd>();
    case tbcclBitOr:
      return kernel_of<Unsigned, BitOr>();
    case tbcclBitXor:
      return kernel_of<Unsigned, BitXor>();
    case tbcclLogicalAnd:
      return kernel_of<Unsigned, LogicalAnd>();
    case tbcclLogicalOr:
      return kernel_of<Unsigned, LogicalOr>();
    case tbcclLogicalXor:
      return kernel_of<Unsigned, LogicalXor>();
    default:
      return {};
  }
}

}  // namespace tbccl::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
