// Floating-point numbers as bit patterns, made without arithmetic: what a test expects must not
// come from the conversions and roundings that are under test.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tbccl::perf {

// sign * mantissa * 2^exponent, exactly.
struct Number {
  bool negative = false;
  uint64_t mantissa = 0;
  int exponent = 0;

  double value() const {
    const double magnitude = std::ldexp(static_cast<double>(mantissa), exponent);
    return negative ? -magnitude : magnitude;
  }
};

// A binary format: Bits stores it, kFraction explicit mantissa bits below kExponent exponent bits.
// kLowest and kHighest: exponents e between which 1.fff * 2^e is a finite normal number for every
// fff.
template <class BitsType, int kFraction, int kExponentBits, int kLowestExponent,
          int kHighestExponent>
struct Format {
  using Bits = BitsType;
  static constexpr int kPrecision = kFraction + 1;  // integers up to 2^kPrecision are exact
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kLowest = kLowestExponent;
  static constexpr int kHighest = kHighestExponent;

  // `number` must be zero or exactly representable as a normal number.
  static Bits encode(const Number& number) {
    const Bits sign =
        static_cast<Bits>(static_cast<uint64_t>(number.negative) << (kFraction + kExponentBits));
    if (number.mantissa == 0) return sign;
    const int top = 63 - std::countl_zero(number.mantissa);
    const uint64_t fraction = top <= kFraction ? number.mantissa << (kFraction - top)
                                               : number.mantissa >> (top - kFraction);
    const uint64_t field = static_cast<uint64_t>(number.exponent + top + kBias) << kFraction;
    return static_cast<Bits>(sign | field | (fraction & ((uint64_t{1} << kFraction) - 1)));
  }

  // Finite numbers, subnormal ones included.
  static Number decode(Bits bits) {
    Number number;
    const uint64_t all = bits;
    number.negative = ((all >> (kFraction + kExponentBits)) & 1) != 0;
    const int field = static_cast<int>((all >> kFraction) & ((1u << kExponentBits) - 1));
    number.mantissa = all & ((uint64_t{1} << kFraction) - 1);
    if (field != 0) number.mantissa |= uint64_t{1} << kFraction;
    number.exponent = (field == 0 ? 1 : field) - kBias - kFraction;
    return number;
  }

  // A step of one in the order of the finite numbers: how far two patterns are apart, in units of
  // the last place.
  static int64_t order(Bits bits) {
    const uint64_t sign = uint64_t{1} << (kFraction + kExponentBits);
    const uint64_t magnitude = static_cast<uint64_t>(bits) & (sign - 1);
    return (static_cast<uint64_t>(bits) & sign) != 0 ? -static_cast<int64_t>(magnitude)
                                                     : static_cast<int64_t>(magnitude);
  }
};

using Float64 = Format<uint64_t, 52, 11, -1022, 1023>;
using Float32 = Format<uint32_t, 23, 8, -126, 127>;
using Float16 = Format<uint16_t, 10, 5, -14, 15>;
using Bfloat16 = Format<uint16_t, 7, 8, -126, 127>;
using Float8e5m2 = Format<uint8_t, 2, 5, -14, 15>;
using Float8e4m3 = Format<uint8_t, 3, 4, -6, 7>;  // 1.875 * 2^8 is its NaN

// `value` rounded to the nearest number of the format, ties to even; not above the normal range.
template <class F>
typename F::Bits round_to(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // [0.5, 1)
  if (exponent - 1 < F::kLowest) {
    // A multiple of the least subnormal number, of which the bit pattern is the count (with the
    // first normal one after the last subnormal one).
    const double multiple = std::ldexp(std::fabs(value), F::kPrecision - 1 - F::kLowest);
    const auto sign = static_cast<typename F::Bits>(F::encode({std::signbit(value), 0, 0}));
    return static_cast<typename F::Bits>(sign |
                                         static_cast<typename F::Bits>(std::nearbyint(multiple)));
  }
  const double scaled = std::nearbyint(std::ldexp(fraction, F::kPrecision));
  return F::encode({std::signbit(value), static_cast<uint64_t>(scaled), exponent - F::kPrecision});
}

}  // namespace tbccl::perf
