// The small float formats: every pattern, and every boundary between two patterns.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "reduce/reduce.h"
#include "unit/catch.h"
#include "unit/reduce/reference.h"

namespace {

using namespace tbccl::reduce;

struct Case {
  const char* name;
  reference::Format format;
  std::function<float(uint32_t)> widen;
  std::function<uint32_t(float)> narrow;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"half", reference::kHalf, [](uint32_t b) { return half_to_float(uint16_t(b)); },
       [](float v) { return uint32_t{float_to_half(v)}; }},
      {"bfloat16", reference::kBfloat16, [](uint32_t b) { return bfloat16_to_float(uint16_t(b)); },
       [](float v) { return uint32_t{float_to_bfloat16(v)}; }},
      {"e4m3", reference::kE4m3, [](uint32_t b) { return e4m3_to_float(uint8_t(b)); },
       [](float v) { return uint32_t{float_to_e4m3(v)}; }},
      {"e5m2", reference::kE5m2, [](uint32_t b) { return e5m2_to_float(uint8_t(b)); },
       [](float v) { return uint32_t{float_to_e5m2(v)}; }},
  };
  return all;
}

// REQUIRE for each of millions of values would take minutes: count, and show the first.
struct Mismatches {
  size_t count = 0;
  uint32_t first = 0;
  void check(bool good, uint32_t what) {
    if (!good && count++ == 0) first = what;
  }
};

void check_narrow(const Case& c, float value, Mismatches& bad) {
  bad.check(c.narrow(value) == reference::encode(c.format, value), std::bit_cast<uint32_t>(value));
}

}  // namespace

TEST_CASE("every pattern of the small formats is widened exactly") {
  for (const Case& c : cases()) {
    Mismatches bad;
    for (uint32_t bits = 0; bits < (1u << c.format.width()); ++bits) {
      const double expected = reference::decode(c.format, bits);
      const float got = c.widen(bits);
      const bool same = std::isnan(expected)
                            ? std::isnan(got)
                            : std::bit_cast<uint32_t>(got) ==
                                  std::bit_cast<uint32_t>(static_cast<float>(expected));
      bad.check(same, bits);
    }
    INFO(c.name << ", first wrong pattern " << bad.first);
    REQUIRE(bad.count == 0);
  }
}

TEST_CASE("narrowing undoes widening") {
  for (const Case& c : cases()) {
    Mismatches bad;
    for (uint32_t bits = 0; bits < (1u << c.format.width()); ++bits) {
      const bool nan = std::isnan(reference::decode(c.format, bits));
      const uint32_t expected =
          nan ? reference::encode(c.format, std::numeric_limits<double>::quiet_NaN()) : bits;
      bad.check(c.narrow(c.widen(bits)) == expected, bits);
    }
    INFO(c.name << ", first wrong pattern " << bad.first);
    REQUIRE(bad.count == 0);
  }
}

TEST_CASE("narrowing rounds to nearest, ties to even, at every boundary") {
  for (const Case& c : cases()) {
    Mismatches bad;
    for (uint32_t bits = 0; bits < (1u << (c.format.width() - 1)); ++bits) {
      const float low = c.widen(bits);
      if (!std::isfinite(low)) continue;
      // The next pattern's value; past the largest, as far away as the last step.
      float high = c.widen(bits + 1);
      if (!std::isfinite(high)) high = low + (low - c.widen(bits - 1));
      const auto middle = static_cast<float>((double{low} + double{high}) / 2);
      for (const float value : {low, middle, std::nextafter(middle, 0.0f),
                                std::nextafter(middle, INFINITY), std::nextafter(low, INFINITY)}) {
        check_narrow(c, value, bad);
        check_narrow(c, -value, bad);
      }
    }
    INFO(c.name << ", first wrong float32 pattern " << bad.first);
    REQUIRE(bad.count == 0);
  }
}

TEST_CASE("narrowing is right for float32 of every exponent") {
  for (const Case& c : cases()) {
    Mismatches bad;
    // An odd stride visits every exponent with many mantissas, infinities and NaNs included.
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 4093) {
      check_narrow(c, std::bit_cast<float>(static_cast<uint32_t>(bits)), bad);
    }
    for (const uint32_t bits : {0x7f800000u, 0xff800000u, 0x7f800001u, 0xffffffffu, 0x7fffffffu,
                                0x7f7fffffu, 0xff7fffffu, 0x00000001u, 0x807fffffu}) {
      check_narrow(c, std::bit_cast<float>(bits), bad);
    }
    INFO(c.name << ", first wrong float32 pattern " << bad.first);
    REQUIRE(bad.count == 0);
  }
}

TEST_CASE("the landmarks of the formats") {
  REQUIRE(float_to_half(65504.0f) == 0x7bff);
  REQUIRE(float_to_half(65519.99f) == 0x7bff);
  REQUIRE(float_to_half(65520.0f) == 0x7c00);
  REQUIRE(float_to_e4m3(448.0f) == 0x7e);
  REQUIRE(float_to_e4m3(464.0f) == 0x7e);  // a tie, to even
  REQUIRE(float_to_e4m3(465.0f) == 0x7f);  // overflow is NaN, without a sign
  REQUIRE(float_to_e4m3(-1e30f) == 0x7f);
  REQUIRE(float_to_e4m3(-INFINITY) == 0x7f);
  REQUIRE(float_to_e5m2(57344.0f) == 0x7b);
  REQUIRE(float_to_e5m2(61440.0f) == 0x7c);
  REQUIRE(float_to_e5m2(-INFINITY) == 0xfc);
  REQUIRE(float_to_bfloat16(-0.0f) == 0x8000);
}
