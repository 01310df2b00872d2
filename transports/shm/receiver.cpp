#include "shm/receiver.h"

#include <cstring>

namespace tbccl::shm {

void Receiver::start(TrunkRegion* mine, const TrunkRegion* theirs) {
  mine_ = mine;
  theirs_ = theirs;
}

// A peer could change what it has published while it is read here. Words are therefore loaded once;
// header and reference are copied; payloads are data, of which only length and place matter.
Receiver::Next Receiver::next(Frame* frame) const {
  const Entry& entry = theirs_->entries[consumed_ % kEntries];
  if (entry.sequence.load(std::memory_order_seq_cst) != consumed_ + 1) return Next::kNothing;
  const uint32_t length = entry.length.load(std::memory_order_relaxed);
  const uint32_t offset = entry.offset.load(std::memory_order_relaxed);
  std::memcpy(frame->header, entry.header, sizeof frame->header);
  frame->length = length;
  switch (static_cast<Where>(entry.where.load(std::memory_order_relaxed))) {
    case Where::kInside:
      if (length > kInlineBytes) return Next::kMalformed;
      frame->payload = entry.inside;
      return Next::kFrame;
    case Where::kRing:
      if (length > kMaxPayload || offset > kRingBytes - length) return Next::kMalformed;
      frame->payload = theirs_->ring + offset;
      return Next::kFrame;
    case Where::kReferred:
      if (length > kMaxPayload || length == 0) return Next::kMalformed;
      frame->payload = nullptr;
      std::memcpy(&frame->reference, entry.inside, sizeof frame->reference);
      return Next::kFrame;
  }
  return Next::kMalformed;
}

void Receiver::done() {
  ++consumed_;
  mine_->consumed.store(consumed_, std::memory_order_release);
}

}  // namespace tbccl::shm
