#include "base/crc32c.h"

#include <numeric>
#include <string>
#include <vector>

#include "unit/catch.h"

using tbccl::crc32c;
using tbccl::crc32c_portable;

namespace {

// One bit at a time, straight from the definition.
uint32_t bitwise(const unsigned char* p, size_t bytes) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= p[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("crc32c: the vectors of RFC 3720") {
  std::vector<unsigned char> bytes(32, 0);
  REQUIRE(crc32c(bytes.data(), 32) == 0x8a9136aau);
  bytes.assign(32, 0xff);
  REQUIRE(crc32c(bytes.data(), 32) == 0x62a8ab43u);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  REQUIRE(crc32c(bytes.data(), 32) == 0x46dd794eu);
  const std::vector<unsigned char> backwards(bytes.rbegin(), bytes.rend());
  REQUIRE(crc32c(backwards.data(), 32) == 0x113fdb5cu);
  REQUIRE(crc32c("123456789", 9) == 0xe3069283u);
  REQUIRE(crc32c(nullptr, 0) == 0);
}

TEST_CASE("crc32c: both versions, every length and alignment, in one piece and in two") {
  std::vector<unsigned char> bytes(160);
  uint32_t seed = 1;
  for (unsigned char& b : bytes) {
    seed = seed * 1664525u + 1013904223u;
    b = static_cast<unsigned char>(seed >> 24);
  }
  for (size_t start = 0; start < 9; ++start) {
    for (size_t length = 0; length <= 130; ++length) {
      const unsigned char* p = bytes.data() + start;
      const uint32_t expected = bitwise(p, length);
      REQUIRE(crc32c(p, length) == expected);
      REQUIRE(crc32c_portable(p, length) == expected);
      const size_t half = length / 3;
      REQUIRE(crc32c(p + half, length - half, crc32c(p, half)) == expected);
      REQUIRE(crc32c_portable(p + half, length - half, crc32c(p, half)) == expected);
    }
  }
}
