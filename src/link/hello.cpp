#include "link/hello.h"

#include <bit>
#include <cstring>

namespace tbccl::link {
namespace {

// magic 4, version 2, flags 2, session 16, from 4, to 4, trunk 4, epoch 2, authentication length 2,
// authentication
constexpr size_t kFixed = 40;
constexpr uint32_t kMagic = 0x6c636274;  // "tbcl"
constexpr uint16_t kVersion = 2;
constexpr size_t kDigest = 16;

void put(std::byte* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}
uint64_t get(const std::byte* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(at[i]) << (8 * i);
  return value;
}

struct SipState {
  uint64_t v0, v1, v2, v3;
  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
};

// SipHash-2-4 (Aumasson and Bernstein, 2012).
uint64_t siphash(uint64_t k0, uint64_t k1, const std::byte* data, size_t length) {
  SipState s{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
             k1 ^ 0x7465646279746573};
  size_t at = 0;
  for (; at + 8 <= length; at += 8) {
    const uint64_t word = get(data + at, 8);
    s.v3 ^= word;
    s.round();
    s.round();
    s.v0 ^= word;
  }
  const uint64_t last =
      (static_cast<uint64_t>(length) << 56) | get(data + at, static_cast<int>(length - at));
  s.v3 ^= last;
  s.round();
  s.round();
  s.v0 ^= last;
  s.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

// Two words over the hello, keyed by two words over the secret.
void digest(const std::string& secret, const std::byte* data, size_t length, std::byte* out) {
  const auto* key = reinterpret_cast<const std::byte*>(secret.data());
  const uint64_t k0 = siphash(0, 1, key, secret.size());
  const uint64_t k1 = siphash(2, 3, key, secret.size());
  put(out, siphash(k0, k1, data, length), 8);
  put(out + 8, siphash(k1, k0, data, length), 8);
}

}  // namespace

size_t encode_hello(const Hello& hello, const std::string& secret, std::byte* b) {
  put(b, kMagic, 4);
  put(b + 4, kVersion, 2);
  put(b + 6, hello.reply ? 1 : 0, 2);
  std::memcpy(b + 8, hello.session.data(), 16);
  put(b + 24, hello.from, 4);
  put(b + 28, hello.to, 4);
  put(b + 32, hello.trunk, 4);
  put(b + 36, hello.epoch, 2);
  const size_t authentication = secret.empty() ? 0 : kDigest;
  put(b + 38, authentication, 2);
  if (authentication != 0) digest(secret, b, kFixed, b + kFixed);
  return kFixed + authentication;
}

const char* decode_hello(const void* bytes, size_t length, const std::string& secret,
                         Hello* hello) {
  const auto* b = static_cast<const std::byte*>(bytes);
  if (length < kFixed) return "the hello is too short";
  if (get(b, 4) != kMagic) return "it is not this library's hello";
  if (get(b + 4, 2) != kVersion) return "the other side speaks another version of the protocol";
  const uint64_t flags = get(b + 6, 2);
  if (flags > 1) return "the hello has unknown flags";
  const size_t authentication = static_cast<size_t>(get(b + 38, 2));
  if (authentication != length - kFixed) return "the hello's length is wrong";
  if (secret.empty() != (authentication == 0)) {
    return "one side has a secret (TBCCL_SECRET), the other has none";
  }
  if (!secret.empty()) {
    if (authentication != kDigest) return "the hello's authentication has a wrong length";
    std::byte expected[kDigest];
    digest(secret, b, kFixed, expected);
    std::byte difference{0};
    for (size_t i = 0; i < kDigest; ++i) difference |= expected[i] ^ b[kFixed + i];
    if (difference != std::byte{0}) return "the secrets (TBCCL_SECRET) differ";
  }
  hello->reply = flags == 1;
  std::memcpy(hello->session.data(), b + 8, 16);
  hello->from = static_cast<uint32_t>(get(b + 24, 4));
  hello->to = static_cast<uint32_t>(get(b + 28, 4));
  hello->trunk = static_cast<uint32_t>(get(b + 32, 4));
  hello->epoch = static_cast<uint16_t>(get(b + 36, 2));
  return nullptr;
}

}  // namespace tbccl::link
