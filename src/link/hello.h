// The handshake of a trunk: what the connecting side says first, and what the other answers.
// Everything in it is untrusted until it has been checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tbccl/transport.h"

namespace tbccl::link {

struct Hello {
  std::array<uint8_t, 16> session{};
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t trunk = 0;
  uint16_t epoch = 0;
  bool reply = false;  // the answer of the accepting side
};

// At most TBCCL_HELLO_MAX_BYTES; returns the length. With a secret the last part authenticates
// the rest.
size_t encode_hello(const Hello& hello, const std::string& secret, std::byte* bytes);
// nullptr if well formed and, with a secret, authentic; otherwise what is wrong.
const char* decode_hello(const void* bytes, size_t length, const std::string& secret, Hello* hello);

}  // namespace tbccl::link
