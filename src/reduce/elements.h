// Elements: how one value of a type is stored, and the type that operators work on.
//   Stored   what lies in a buffer        Work   what operators see
//   widen    Stored to Work, exact        narrow Work to Stored, rounded, NaN made canonical
//   divide   Work by a number of ranks
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "reduce/small_float.h"

namespace tbccl::reduce {

// Buffers have any alignment and any declared type.
template <class T>
T load(const void* buffer, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(buffer) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* buffer, size_t index, T value) {
  std::memcpy(static_cast<unsigned char*>(buffer) + index * sizeof(T), &value, sizeof(T));
}

template <class T>
struct Integer {
  using Stored = T;
  using Work = T;
  static Work widen(Stored value) { return value; }
  static Stored narrow(Work value) { return value; }
  // By more than 1; truncates towards zero. Processors divide vectors of floating-point numbers
  // alone. The nearest quotient of those is never another integer than the exact one, which is an
  // integer itself or at least 1/divisor away from one: more than half a last digit, as the value
  // has fewer digits than the number that it is made (and a divisor that is rounded, being large,
  // gives 0 either way).
  static Work divide(Work value, int32_t divisor) {
    if constexpr (sizeof(T) == 8) {
      return value / static_cast<T>(divisor);  // a signed divisor for signed values
    } else if constexpr (sizeof(T) == 4) {
      // Above 2^31 is what vectors of unsigned numbers convert badly; half of any number is not.
      constexpr double kMiddle = std::is_signed_v<T> ? 0.0 : 2147483648.0;
      constexpr uint32_t kShift = std::is_signed_v<T> ? 0 : 0x80000000u;
      const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(value) ^ kShift);
      const double quotient = (static_cast<double>(shifted) + kMiddle) / divisor;
      return static_cast<Work>(static_cast<int32_t>(quotient));
    } else {
      const auto whole = static_cast<float>(static_cast<int32_t>(value));
      return static_cast<Work>(static_cast<int32_t>(whole / static_cast<float>(divisor)));
    }
  }
};

template <class T>
struct Real {
  using Stored = T;
  using Work = T;
  static Work widen(Stored value) { return value; }
  static Stored narrow(Work value) {
    return value == value ? value : std::numeric_limits<T>::quiet_NaN();
  }
  static Work divide(Work value, int32_t divisor) { return value / static_cast<T>(divisor); }
};

template <class Format, class Bits>
struct Small {
  using Stored = Bits;
  using Work = float;
  static Work widen(Stored value) { return Format::widen(value); }
  static Stored narrow(Work value) { return Format::narrow(value); }
  static Work divide(Work value, int32_t divisor) { return value / static_cast<float>(divisor); }
};

struct Boolean {
  using Stored = uint8_t;
  using Work = uint8_t;
  static Work widen(Stored value) { return value != 0 ? 1 : 0; }
  static Stored narrow(Work value) { return value; }
};

template <class T>
struct Complex {
  struct Pair {
    T real, imaginary;
  };
  using Stored = Pair;
  using Work = Pair;
  static Work widen(Stored value) { return value; }
  static Stored narrow(Work value) {
    return {Real<T>::narrow(value.real), Real<T>::narrow(value.imaginary)};
  }
};

}  // namespace tbccl::reduce
