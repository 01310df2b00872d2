#include "plain_loops.h"

#include <bit>
#include <cstring>

namespace plain {

void add_floats(float* __restrict__ a, const float* __restrict__ b, size_t count) {
  for (size_t i = 0; i < count; ++i) a[i] += b[i];
}

void add_floats(float* __restrict__ sum, const float* __restrict__ a, const float* __restrict__ b,
                size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

void add_bfloat16(uint16_t* __restrict__ a, const uint16_t* __restrict__ b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(a[i]) << 16);
    const float y = std::bit_cast<float>(static_cast<uint32_t>(b[i]) << 16);
    const auto bits = std::bit_cast<uint32_t>(x + y);
    a[i] = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

uint64_t read(const unsigned char* from, size_t bytes) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + sizeof(sums) <= bytes; i += sizeof(sums)) {
    uint64_t words[8];
    std::memcpy(words, from + i, sizeof(words));
    for (size_t j = 0; j < 8; ++j) sums[j] ^= words[j];
  }
  uint64_t all = 0;
  for (const uint64_t sum : sums) all ^= sum;
  return all;
}

}  // namespace plain
