// The first bytes of a connection: the connecting side's hello, then the accepting side's reply.
// Each is a magic number (4 bytes), a length (2 bytes, at most TBCCL_HELLO_MAX_BYTES), and the
// bytes given by the link layer. Everything before acceptance is untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbccl::tcp {

inline constexpr uint32_t kHelloMagic = 0x00485442;  // "BTH" and the version of the format
inline constexpr uint32_t kReplyMagic = 0x00525442;  // "BTR" and the version of the format
inline constexpr size_t kGreetingPrefixBytes = 6;

enum class Greeting {
  kIncomplete,  // right so far
  kComplete,
  kWrong,  // nothing that could follow makes it right
};

// Looks at the `bytes` bytes received so far. If complete, the content is at
// [data + kGreetingPrefixBytes, + *length).
Greeting parse_greeting(const uint8_t* data, size_t bytes, uint32_t magic, size_t* length);

// `bytes` must be at most TBCCL_HELLO_MAX_BYTES.
std::vector<uint8_t> make_greeting(uint32_t magic, const void* content, size_t bytes);

}  // namespace tbccl::tcp
