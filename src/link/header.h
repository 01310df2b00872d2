// The 64 bytes in front of every frame, little-endian. See README.md for the meaning of the fields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "link/links.h"

namespace tbccl::link {

enum class FrameKind : uint8_t {
  kData = 1,       // bytes [offset, offset + length) of a message
  kCancelled = 2,  // takes the place of a data frame whose message was withdrawn
  kGrant = 3,      // the sender may send bytes [0, offset) of this message
  kAnnounce = 4,   // a message waits at the sender
  kCredit = 5,     // carries `credit` alone
  kAck = 6         // carries acknowledgements alone; has no sequence, is never retransmitted
};

enum FrameFlag : uint8_t {
  kFlagEager = 1,      // counted against the eager credit of this communicator
  kFlagAckNow = 2,     // the sender waits for the acknowledgement
  kFlagAnnounced = 4,  // a kAnnounce of this message exists
  kFlagMismatch = 8    // kGrant: the arguments differ; total and fingerprint are the receiver's
};

// Sequences in one window: what may be unacknowledged at a time.
inline constexpr uint32_t kWindow = 256;

struct Header {
  FrameKind kind = FrameKind::kAck;
  uint8_t flags = 0;
  uint16_t epoch = 0;   // of the trunk: which of its connections
  uint16_t number = 0;  // of the frame on this trunk
  Key key;              // op has 48 bits
  uint32_t sequence = 0;
  uint32_t ack = 0;     // everything up to this sequence has arrived
  uint32_t credit = 0;  // eager bytes of key.comm consumed so far, modulo 2^32
  uint32_t length = 0;  // of the payload
  uint32_t crc = 0;  // CRC32C of header (with 0 here) and payload on trunks that may lose; else 0
  uint64_t fingerprint = 0;
  uint64_t offset = 0;  // 48 bits
  uint64_t total = 0;   // 48 bits
  uint8_t ordinal = 0;  // kGrant: which grant of its message this is, from 1, modulo 256
  std::array<uint64_t, 4> bitmap{};  // kAck: bit i: sequence ack + 1 + i has arrived
};

using HeaderBytes = std::array<std::byte, TBCCL_FRAME_HEADER_BYTES>;

inline constexpr uint64_t kMaxMessage = (uint64_t{1} << 48) - 1;

void encode(const Header& header, HeaderBytes* bytes);
// Decodes what a peer sent. nullptr if every field is in its range; otherwise what is wrong.
const char* decode(const void* bytes, Header* header);

// The checksum over header and payload, with the header's own field taken as 0.
uint32_t checksum(const void* header, const void* payload, size_t length);
void set_checksum(HeaderBytes* header, uint32_t crc);

// a is later than b on the circle of sequences.
inline bool after(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace tbccl::link
