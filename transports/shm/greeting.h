// The first bytes of a connection: the connecting end's hello, then the accepting end's reply. Each
// is a prefix, then at most TBCCL_HELLO_MAX_BYTES given by the link layer; the descriptors of the
// end's two regions, board and trunk, go along with the first byte. Everything before acceptance is
// untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shared_memory.h"

namespace tbccl::shm {

inline constexpr uint32_t kHelloMagic = 0x31485354;  // "TSH1"
inline constexpr uint32_t kReplyMagic = 0x31525354;  // "TSR1"

// Native byte order: both ends are on one host.
struct GreetingPrefix {
  uint32_t magic;
  uint16_t layout;   // kLayoutVersion
  uint16_t content;  // bytes that follow
  ProcessToken token;
  uint64_t board;  // ids of the regions, of use within one process
  uint64_t trunk;
};
static_assert(sizeof(GreetingPrefix) == 40);

enum class Greeting {
  kIncomplete,  // right so far
  kComplete,
  kWrong,  // nothing that could follow makes it right
};

// Looks at the bytes received so far. If complete, *prefix is set, and its content follows it.
Greeting parse_greeting(const uint8_t* data, size_t bytes, uint32_t magic, GreetingPrefix* prefix);

// `bytes` must be at most TBCCL_HELLO_MAX_BYTES.
std::vector<uint8_t> make_greeting(uint32_t magic, uint64_t board, uint64_t trunk,
                                   const void* content, size_t bytes);

}  // namespace tbccl::shm
