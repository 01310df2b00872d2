// Conversions between float32 and the small float formats, without branches, table look-ups or
// shifts by variable amounts, so that loops over them are vectorised on any processor. They never
// depend on how float32 denormals are treated: threads of the caller may have set flush-to-zero.
#pragma once

#include <bit>
#include <cstdint>

namespace tbccl::reduce {

enum class Infinities { kYes, kNo };  // kNo: OCP e4m3fn, whose largest pattern is its only NaN

// A sign, kExponent exponent bits and kMantissa mantissa bits, with denormals.
template <class Bits, int kExponent, int kMantissa, Infinities kInfinities>
struct SmallFloat {
  static constexpr int kShift = 23 - kMantissa;  // aligns the mantissas
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int32_t kRebias = (127 - kBias) << 23;  // between the exponents
  static constexpr int32_t kMagnitude = (1 << (kExponent + kMantissa)) - 1;
  static constexpr int32_t kInfinity = ((1 << kExponent) - 1) << kMantissa;
  // The canonical NaN: quiet, positive, no payload.
  static constexpr int32_t kNan =
      kInfinities == Infinities::kYes ? kInfinity | 1 << (kMantissa - 1) : kMagnitude;
  static constexpr bool kHasInfinities = kInfinities == Infinities::kYes;
  static constexpr int32_t kTop = kHasInfinities ? kInfinity : kNan;  // of what is too large
  // From the exponent that infinity has after rebiasing twice to that of float32's infinity.
  static constexpr int32_t kTopGap =
      0x7f800000 - (kHasInfinities ? (kInfinity << kShift) + 2 * kRebias : 0);
  static constexpr int32_t kSmallestNormal = kRebias + (1 << 23);  // as a float32
  // A float32 whose last bit weighs as much as the smallest denormal.
  static constexpr int32_t kStep = kRebias + ((kShift + 1) << 23);

  // Exact. A NaN stays one.
  static float widen(Bits bits) {
    const int32_t magnitude = (static_cast<int32_t>(bits) & kMagnitude) << kShift;
    const auto sign = static_cast<uint32_t>(static_cast<int32_t>(bits) & (kMagnitude + 1))
                      << (31 - kExponent - kMantissa);
    // A denormal m counts steps of the smallest normal number's last bit: put it behind that
    // number's exponent and subtract the number; both operands and the result are normal.
    const int32_t denormal = std::bit_cast<int32_t>(
        std::bit_cast<float>(magnitude + kSmallestNormal) - std::bit_cast<float>(kSmallestNormal));
    int32_t result = magnitude < (1 << 23) ? denormal : magnitude + kRebias;
    if constexpr (kInfinities == Infinities::kYes) {
      result = magnitude >= (kInfinity << kShift) ? magnitude + 2 * kRebias + kTopGap : result;
    } else {
      result = magnitude == (kNan << kShift) ? 0x7fc00000 : result;
    }
    return std::bit_cast<float>(static_cast<uint32_t>(result) | sign);
  }

  // To nearest, ties to even. What is too large becomes an infinity, or NaN without infinities.
  static Bits narrow(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto magnitude = static_cast<int32_t>(bits & 0x7fffffffu);
    const auto sign = static_cast<int32_t>(bits >> 31) << (kExponent + kMantissa);
    // Adding this rounds to a multiple of the smallest denormal.
    const int32_t denormal =
        std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kStep)) -
        kStep;
    const int32_t odd = (magnitude >> kShift) & 1;
    const int32_t normal = (magnitude - kRebias + (1 << (kShift - 1)) - 1 + odd) >> kShift;
    int32_t result = magnitude < kRebias + (1 << 23) ? denormal : normal;
    result = result > kTop ? kTop : result;
    const bool not_a_number =
        kInfinities == Infinities::kYes ? magnitude > 0x7f800000 : result == kNan;
    result = not_a_number ? kNan : result | sign;
    return static_cast<Bits>(result);
  }
};

using Float16 = SmallFloat<uint16_t, 5, 10, Infinities::kYes>;
using Float8e4m3 = SmallFloat<uint8_t, 4, 3, Infinities::kNo>;
using Float8e5m2 = SmallFloat<uint8_t, 5, 2, Infinities::kYes>;

// The upper half of a float32.
struct Bfloat16 {
  static float widen(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  static uint16_t narrow(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool not_a_number = static_cast<int32_t>(bits & 0x7fffffffu) > 0x7f800000;
    return static_cast<uint16_t>(not_a_number ? 0x7fc0u : rounded);
  }
};

}  // namespace tbccl::reduce
