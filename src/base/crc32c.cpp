#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#if defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#elif defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

namespace tbccl {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;
using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: the effect of byte b followed by k zero bytes, so that eight bytes are one step.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? kPolynomial : 0u);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t previous = tables[k - 1][b];
      tables[k][b] = (previous >> 8) ^ tables[0][previous & 0xffu];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

uint32_t load_little(const unsigned char* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
         static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
}

uint32_t step_portable(uint32_t crc, const unsigned char* p, size_t bytes) {
  for (; bytes >= 8; bytes -= 8, p += 8) {
    const uint32_t low = crc ^ load_little(p);
    const uint32_t high = load_little(p + 4);
    crc = kTables[7][low & 0xffu] ^ kTables[6][(low >> 8) & 0xffu] ^
          kTables[5][(low >> 16) & 0xffu] ^ kTables[4][low >> 24] ^ kTables[3][high & 0xffu] ^
          kTables[2][(high >> 8) & 0xffu] ^ kTables[1][(high >> 16) & 0xffu] ^
          kTables[0][high >> 24];
  }
  for (; bytes > 0; --bytes, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xffu];
  return crc;
}

#if defined(__x86_64__)
#define TBCCL_CRC_INSTRUCTION
bool have_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) uint32_t step_instruction(uint32_t crc, const unsigned char* p,
                                                            size_t bytes) {
  uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; bytes > 0; --bytes, ++p) crc = _mm_crc32_u8(crc, *p);
  return crc;
}
#elif defined(__aarch64__) && (defined(__ARM_FEATURE_CRC32) || defined(__linux__))
#define TBCCL_CRC_INSTRUCTION
#if defined(__ARM_FEATURE_CRC32)
bool have_instruction() { return true; }
uint32_t crc_word(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }
uint32_t crc_byte(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
#else
// Compilers hide the intrinsics unless the whole file is built for a processor that has them.
bool have_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
uint32_t crc_word(uint32_t crc, uint64_t word) {
  __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
  return crc;
}
uint32_t crc_byte(uint32_t crc, uint8_t byte) {
  __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"
          : "+r"(crc)
          : "r"(static_cast<uint32_t>(byte)));
  return crc;
}
#endif

uint32_t step_instruction(uint32_t crc, const unsigned char* p, size_t bytes) {
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    crc = crc_word(crc, word);
  }
  for (; bytes > 0; --bytes, ++p) crc = crc_byte(crc, *p);
  return crc;
}
#endif

}  // namespace

uint32_t crc32c_portable(const void* data, size_t bytes, uint32_t before) {
  return ~step_portable(~before, static_cast<const unsigned char*>(data), bytes);
}

uint32_t crc32c(const void* data, size_t bytes, uint32_t before) {
#ifdef TBCCL_CRC_INSTRUCTION
  static const bool instruction = have_instruction();
  if (instruction)
    return ~step_instruction(~before, static_cast<const unsigned char*>(data), bytes);
#endif
  return crc32c_portable(data, bytes, before);
}

}  // namespace tbccl
