#include "link/header.h"

#include <cstring>

#include "base/crc32c.h"

namespace tbccl::link {
namespace {

// Byte positions. kAck has its bitmap where the others have the message's name.
constexpr size_t kMagicAt = 0, kKindAt = 2, kFlagsAt = 3, kEpochAt = 4, kNumberAt = 6, kCommAt = 8,
                 kSequenceAt = 12, kAckAt = 16, kCreditAt = 20, kLengthAt = 24, kCrcAt = 28,
                 kFingerprintAt = 32, kStepAt = 40, kOpAt = 44, kOffsetAt = 50, kTotalAt = 56,
                 kClassAt = 62, kOrdinalAt = 63, kBitmapAt = 32;
constexpr uint16_t kMagic = 0xb102;  // protocol version in the low byte

void put(std::byte* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

uint64_t get(const std::byte* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(at[i]) << (8 * i);
  return value;
}

}  // namespace

void encode(const Header& h, HeaderBytes* bytes) {
  std::byte* b = bytes->data();
  put(b + kMagicAt, kMagic, 2);
  put(b + kKindAt, static_cast<uint8_t>(h.kind), 1);
  put(b + kFlagsAt, h.flags, 1);
  put(b + kEpochAt, h.epoch, 2);
  put(b + kNumberAt, h.number, 2);
  put(b + kCommAt, h.key.comm, 4);
  put(b + kSequenceAt, h.sequence, 4);
  put(b + kAckAt, h.ack, 4);
  put(b + kCreditAt, h.credit, 4);
  put(b + kLengthAt, h.length, 4);
  put(b + kCrcAt, h.crc, 4);
  if (h.kind == FrameKind::kAck) {
    for (size_t i = 0; i < h.bitmap.size(); ++i) put(b + kBitmapAt + 8 * i, h.bitmap[i], 8);
    return;
  }
  put(b + kFingerprintAt, h.fingerprint, 8);
  put(b + kStepAt, h.key.step, 4);
  put(b + kOpAt, h.key.op, 6);
  put(b + kOffsetAt, h.offset, 6);
  put(b + kTotalAt, h.total, 6);
  put(b + kClassAt, static_cast<uint8_t>(h.key.cls), 1);
  put(b + kOrdinalAt, h.ordinal, 1);
}

const char* decode(const void* bytes, Header* header) {
  const auto* b = static_cast<const std::byte*>(bytes);
  Header& h = *header;
  h = Header{};
  if (get(b + kMagicAt, 2) != kMagic) return "it does not begin with this protocol's magic number";
  const uint64_t kind = get(b + kKindAt, 1);
  if (kind < 1 || kind > 6) return "its kind of frame is unknown";
  h.kind = static_cast<FrameKind>(kind);
  h.flags = static_cast<uint8_t>(get(b + kFlagsAt, 1));
  if (h.flags > 15) return "it has unknown flags";
  h.epoch = static_cast<uint16_t>(get(b + kEpochAt, 2));
  h.number = static_cast<uint16_t>(get(b + kNumberAt, 2));
  h.key.comm = static_cast<uint32_t>(get(b + kCommAt, 4));
  h.sequence = static_cast<uint32_t>(get(b + kSequenceAt, 4));
  h.ack = static_cast<uint32_t>(get(b + kAckAt, 4));
  h.credit = static_cast<uint32_t>(get(b + kCreditAt, 4));
  h.length = static_cast<uint32_t>(get(b + kLengthAt, 4));
  h.crc = static_cast<uint32_t>(get(b + kCrcAt, 4));
  if (h.kind == FrameKind::kAck) {
    for (size_t i = 0; i < h.bitmap.size(); ++i) h.bitmap[i] = get(b + kBitmapAt + 8 * i, 8);
    if (h.length != 0) return "an acknowledgement has a payload";
    return nullptr;
  }
  h.fingerprint = get(b + kFingerprintAt, 8);
  h.key.step = static_cast<uint32_t>(get(b + kStepAt, 4));
  h.key.op = get(b + kOpAt, 6);
  h.offset = get(b + kOffsetAt, 6);
  h.total = get(b + kTotalAt, 6);
  const uint64_t cls = get(b + kClassAt, 1);
  if (cls > 2) return "its class is unknown";
  h.key.cls = static_cast<Class>(cls);
  h.ordinal = static_cast<uint8_t>(get(b + kOrdinalAt, 1));
  if (h.kind != FrameKind::kData && h.length != 0) return "a control frame has a payload";
  if (h.offset > h.total || h.length > h.total - h.offset) {
    return "its range lies outside of its message";
  }
  if (h.kind == FrameKind::kData && h.length == 0 && h.total != 0) {
    return "an empty frame belongs to a message that is not empty";
  }
  return nullptr;
}

uint32_t checksum(const void* header, const void* payload, size_t length) {
  HeaderBytes copy;
  std::memcpy(copy.data(), header, copy.size());
  set_checksum(&copy, 0);
  const uint32_t crc = crc32c(copy.data(), copy.size());
  return length == 0 ? crc : crc32c(payload, length, crc);
}

void set_checksum(HeaderBytes* header, uint32_t crc) { put(header->data() + kCrcAt, crc, 4); }

}  // namespace tbccl::link
