#include "base/numbers.h"

#include "unit/catch.h"

using namespace tbccl;

TEST_CASE("decimal fractions") {
  constexpr uint64_t kUnit = 1'000'000'000;
  constexpr uint64_t kMost = 1'000'000'000 * kUnit;
  const auto parse = [](std::string_view text) { return parse_decimal(text, kUnit, kMost); };
  REQUIRE(parse("0") == 0u);
  REQUIRE(parse("600") == 600 * kUnit);
  REQUIRE(parse("0.5") == kUnit / 2);
  REQUIRE(parse(".25") == kUnit / 4);
  REQUIRE(parse("3.") == 3 * kUnit);
  REQUIRE(parse("1.000000001") == kUnit + 1);
  REQUIRE(parse("1.0000000019999999999999999999999") == kUnit + 1);  // truncated
  REQUIRE(parse("000000000000000000000000000007") == 7 * kUnit);
  REQUIRE(parse("1000000000") == kMost);
  for (const char* bad :
       {"", ".", "-1", "+1", " 1", "1 ", "1e3", "0x10", "1.2.3", "nan", "1,5", "1000000000.1",
        "1000000001", "18446744073709551616", "99999999999999999999999999999999", "1s"}) {
    INFO(bad);
    REQUIRE_FALSE(parse(bad));
  }
}

TEST_CASE("decimals at the edge of 64 bits") {
  REQUIRE(parse_decimal("18446744073709551615", 1, UINT64_MAX) == UINT64_MAX);
  REQUIRE_FALSE(parse_decimal("18446744073709551616", 1, UINT64_MAX));
  REQUIRE_FALSE(parse_decimal("1844674407370955162", 10, UINT64_MAX));
}

TEST_CASE("bytes with suffixes") {
  REQUIRE(parse_bytes("0", 100) == 0u);
  REQUIRE(parse_bytes("64K", 1 << 20) == 65536u);
  REQUIRE(parse_bytes("1m", 1 << 20) == 1048576u);
  REQUIRE(parse_bytes("1G", uint64_t{1} << 30) == uint64_t{1} << 30);
  for (const char* bad : {"", "K", "1.5K", "1KB", "2M", "-1", "K1", "18446744073709551615K"}) {
    INFO(bad);
    REQUIRE_FALSE(parse_bytes(bad, 1 << 20));
  }
}
