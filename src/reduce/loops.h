// The loops over elements. They are plain so that compilers vectorise them; two buffers are equal
// or disjoint, so no iteration depends on another, which the compilers have to be told.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "reduce/elements.h"
#include "reduce/kernel.h"
#include "reduce/operators.h"

#if defined(__clang__)
// Says the same for loops that are not worth vectorising (divisions of integers): no warning.
#pragma clang diagnostic ignored "-Wpass-failed"
#define TBCCL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TBCCL_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace tbccl::reduce {

inline constexpr size_t kFoldBlock = 256;  // elements that fold accumulates at once, on the stack

// Only a sum is ever divided, so only its kernels have the loop for it.
template <class Element, class Operator>
inline constexpr bool kDivides =
    std::is_same_v<Operator, Sum>&& std::is_arithmetic_v<typename Element::Work>;

// Whether operators work on another type than the stored one.
template <class Element>
inline constexpr bool kWidens = !std::is_same_v<typename Element::Stored, typename Element::Work>;

template <class Element, class Operator>
void combine_loop(void* dst, const void* a, const void* b, size_t count,
                  [[maybe_unused]] int32_t divisor) {
  using Stored = typename Element::Stored;
  if constexpr (kDivides<Element, Operator>) {
    if (divisor > 1) {
      TBCCL_INDEPENDENT
      for (size_t i = 0; i < count; ++i) {
        const auto sum =
            Operator::apply(Element::widen(load<Stored>(a, i)), Element::widen(load<Stored>(b, i)));
        store<Stored>(dst, i, Element::narrow(Element::divide(sum, divisor)));
      }
      return;
    }
  }
  TBCCL_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    store<Stored>(dst, i,
                  Element::narrow(Operator::apply(Element::widen(load<Stored>(a, i)),
                                                  Element::widen(load<Stored>(b, i)))));
  }
}

// The steps of a block are loops of their own: compilers vectorise each of them, and give up on one
// loop that widens, chooses and rounds.
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

// acc[i] = acc[i] (op) source[first + i]
template <class Element, class Operator>
void accumulate(typename Element::Work* acc, const void* source, size_t first, size_t count) {
  if constexpr (kWidens<Element>) {
    typename Element::Work next[kFoldBlock];
    widen_block<Element>(next, source, first, count);
    TBCCL_INDEPENDENT
    for (size_t i = 0; i < count; ++i) acc[i] = Operator::apply(acc[i], next[i]);
  } else {
    TBCCL_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      acc[i] = Operator::apply(acc[i],
                               Element::widen(load<typename Element::Stored>(source, first + i)));
    }
  }
}

// Every source of a block is read before the block is written: dst may be any of them.
template <class Element, class Operator>
void fold_loop(void* dst, const void* const* sources, int k, size_t count,
               [[maybe_unused]] int32_t divisor) {
  typename Element::Work acc[kFoldBlock];
  for (size_t first = 0; first < count; first += kFoldBlock) {
    const size_t block = std::min(kFoldBlock, count - first);
    widen_block<Element>(acc, sources[0], first, block);
    TBCCL_INDEPENDENT
    for (size_t i = 0; i < block; ++i) acc[i] = Operator::first(acc[i]);
    for (int j = 1; j < k; ++j) accumulate<Element, Operator>(acc, sources[j], first, block);
    if constexpr (kDivides<Element, Operator>) {
      if (divisor > 1) {
        TBCCL_INDEPENDENT
        for (size_t i = 0; i < block; ++i) acc[i] = Element::divide(acc[i], divisor);
      }
    }
    narrow_block<Element>(dst, first, acc, block);
  }
}

// combine for elements whose widening is work: blocks, as in fold.
template <class Element, class Operator>
void combine_blocks(void* dst, const void* a, const void* b, size_t count, int32_t divisor) {
  const void* const sources[] = {a, b};
  fold_loop<Element, Operator>(dst, sources, 2, count, divisor);
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
    return {combine_blocks<Element, Operator>, fold_loop<Element, Operator>};
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

}  // namespace tbccl::reduce
