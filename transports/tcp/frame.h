// Frames in the byte stream of a trunk: an 8-byte prefix (length of the payload, magic number; both
// little-endian), the 64-byte header, the payload. The magic number shows a lost byte at once.
#pragma once

#include <cstring>

#include "tbccl/transport.h"
#include "tcp/bytes.h"

namespace tbccl::tcp {

inline constexpr uint32_t kFrameMagic = 0x4d524654;  // "TFRM"
inline constexpr uint32_t kPrefixBytes = 8;
inline constexpr uint32_t kHeadBytes = kPrefixBytes + TBCCL_FRAME_HEADER_BYTES;
inline constexpr uint32_t kMaxPayload = 4u << 20;
// Loopback is as fast with 128 KiB to 1 MiB; larger ones leave the near caches between the steps
// of a message's way, smaller ones cost more system calls.
inline constexpr uint32_t kBestPayload = 256u << 10;

inline void encode_head(uint8_t* to, const void* header, uint32_t length) {
  put_u32(to, length);
  put_u32(to + 4, kFrameMagic);
  std::memcpy(to + kPrefixBytes, header, TBCCL_FRAME_HEADER_BYTES);
}

// False: these are not the first bytes of a frame.
inline bool decode_prefix(const uint8_t* from, uint32_t* length) {
  *length = get_u32(from);
  return get_u32(from + 4) == kFrameMagic && *length <= kMaxPayload;
}

}  // namespace tbccl::tcp
