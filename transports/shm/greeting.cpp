#include "shm/greeting.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "shm/layout.h"
#include "tbccl/transport.h"

namespace tbccl::shm {

Greeting parse_greeting(const uint8_t* data, size_t bytes, uint32_t magic, GreetingPrefix* prefix) {
  GreetingPrefix right{};
  right.magic = magic;
  right.layout = kLayoutVersion;
  constexpr size_t kSame = offsetof(GreetingPrefix, content);
  if (bytes > 0 && std::memcmp(data, &right, std::min(bytes, kSame)) != 0) return Greeting::kWrong;
  if (bytes < sizeof *prefix) return Greeting::kIncomplete;
  std::memcpy(prefix, data, sizeof *prefix);
  if (prefix->content > TBCCL_HELLO_MAX_BYTES) return Greeting::kWrong;
  return bytes < sizeof *prefix + prefix->content ? Greeting::kIncomplete : Greeting::kComplete;
}

std::vector<uint8_t> make_greeting(uint32_t magic, uint64_t board, uint64_t trunk,
                                   const void* content, size_t bytes) {
  const GreetingPrefix prefix{magic,           kLayoutVersion, static_cast<uint16_t>(bytes),
                              process_token(), board,          trunk};
  std::vector<uint8_t> greeting(sizeof prefix + bytes);
  std::memcpy(greeting.data(), &prefix, sizeof prefix);
  if (bytes > 0) std::memcpy(greeting.data() + sizeof prefix, content, bytes);
  return greeting;
}

}  // namespace tbccl::shm
