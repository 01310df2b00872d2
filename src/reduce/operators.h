// Operators on widened values. apply(a, b) has a from the lower ranks; first(a) is what a single
// contribution becomes.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tbccl::reduce {

// Where integers are added and multiplied: unsigned, so that they wrap, and not narrower than
// unsigned int, because uint16_t would be promoted to int and overflow there.
template <class T>
using Wrapping =
    std::conditional_t<(sizeof(T) < sizeof(uint32_t)), uint32_t, std::make_unsigned_t<T>>;

struct Identity {
  template <class T>
  static T first(T a) {
    return a;
  }
};

struct Sum : Identity {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};

// A product by itself, rounded. GCC 12 makes a fused multiply-add of the two halves of a complex
// product even with -ffp-contract=off, where it may use that instruction; this it cannot look into.
template <class T>
T rounded(T product) {
#if defined(__x86_64__)
  asm("" : "+x"(product));
#elif defined(__aarch64__)
  asm("" : "+w"(product));
#endif
  return product;
}

struct Product : Identity {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {  // complex
      return {rounded(a.real * b.real) - rounded(a.imaginary * b.imaginary),
              rounded(a.real * b.imaginary) + rounded(a.imaginary * b.real)};
    }
  }
};

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Equal numbers have equal bits but for the zeros: there "or" finds a sign and "and" clears one.
struct Minimum : Identity {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return b < a ? b : a;
    } else {
      const auto either = std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b);
      const T smaller = a < b ? a : b;
      const T number = a == b ? std::bit_cast<T>(either) : smaller;
      return ((a == a) & (b == b)) ? number : a + b;  // a sum with a NaN is a NaN
    }
  }
};

struct Maximum : Identity {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a < b ? b : a;
    } else {
      const auto both = std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b);
      const T larger = b < a ? a : b;
      const T number = a == b ? std::bit_cast<T>(both) : larger;
      return ((a == a) & (b == b)) ? number : a + b;
    }
  }
};

struct BitAnd : Identity {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitOr : Identity {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BitXor : Identity {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

struct Truth {
  template <class T>
  static T first(T a) {
    return static_cast<T>(a != 0);
  }
};

struct LogicalAnd : Truth {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((a != 0) & (b != 0));
  }
};

struct LogicalOr : Truth {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((a | b) != 0);
  }
};

struct LogicalXor : Truth {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((a != 0) ^ (b != 0));
  }
};

}  // namespace tbccl::reduce
