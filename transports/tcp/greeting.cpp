#include "tcp/greeting.h"

#include <algorithm>
#include <cstring>

#include "tbccl/transport.h"
#include "tcp/bytes.h"

namespace tbccl::tcp {

Greeting parse_greeting(const uint8_t* data, size_t bytes, uint32_t magic, size_t* length) {
  uint8_t right[4];
  put_u32(right, magic);
  if (std::memcmp(data, right, std::min(bytes, sizeof right)) != 0) return Greeting::kWrong;
  if (bytes < kGreetingPrefixBytes) return Greeting::kIncomplete;
  *length = get_u16(data + 4);
  if (*length > TBCCL_HELLO_MAX_BYTES) return Greeting::kWrong;
  return bytes < kGreetingPrefixBytes + *length ? Greeting::kIncomplete : Greeting::kComplete;
}

std::vector<uint8_t> make_greeting(uint32_t magic, const void* content, size_t bytes) {
  std::vector<uint8_t> greeting(kGreetingPrefixBytes + bytes);
  put_u32(greeting.data(), magic);
  put_u16(greeting.data() + 4, static_cast<uint16_t>(bytes));
  if (bytes > 0) std::memcpy(greeting.data() + kGreetingPrefixBytes, content, bytes);
  return greeting;
}

}  // namespace tbccl::tcp
