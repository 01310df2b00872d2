#include "shm/sender.h"

#include <cstring>

namespace tbccl::shm {
namespace {

// Payloads begin at lines of their own.
uint32_t rounded(uint32_t length) { return (length + 63) & ~63u; }

}  // namespace

void Sender::start(TrunkRegion* mine, const TrunkRegion* theirs) {
  mine_ = mine;
  theirs_ = theirs;
}

// Whether there is a free stretch for this payload, and where. head_ never catches up with tail_,
// so that equality only ever means an empty ring, which begins again at 0: in caches that are warm.
bool Sender::fits_ring(uint32_t length, uint32_t* offset) const {
  const uint32_t bytes = rounded(length);
  if (ring_frames_ == 0) {
    *offset = 0;
    return bytes <= kRingBytes;
  }
  if (head_ > tail_) {
    *offset = head_;
    if (bytes <= kRingBytes - head_) return true;
    *offset = 0;
    return bytes < tail_;
  }
  *offset = head_;
  return bytes < tail_ - head_;
}

bool Sender::ready() const {
  if (!asked_ || published_ - settled_ > kEntries / 2) return false;
  uint32_t offset = 0;
  return wanted_ <= kInlineBytes || fits_ring(wanted_, &offset);
}

bool Sender::send(const void* header, const void* payload, uint32_t length, uint64_t token,
                  bool owes) {
  if (published_ - settled_ == kEntries) return false;
  Entry& entry = mine_->entries[published_ % kEntries];
  std::memcpy(entry.header, header, sizeof entry.header);
  if (length <= kInlineBytes) {
    if (length > 0) std::memcpy(entry.inside, payload, length);
    publish(entry, Where::kInside, 0, length, {token, 0, false, owes});
    return true;
  }
  uint32_t offset = 0;
  if (!fits_ring(length, &offset)) return false;
  std::memcpy(mine_->ring + offset, payload, length);
  if (ring_frames_++ == 0) tail_ = offset;
  head_ = offset + rounded(length);
  publish(entry, Where::kRing, offset, length, {token, head_, true, owes});
  return true;
}

bool Sender::send_reference(const void* header, const tbcclReference_t& reference, uint32_t length,
                            uint64_t token) {
  if (published_ - settled_ == kEntries) return false;
  Entry& entry = mine_->entries[published_ % kEntries];
  std::memcpy(entry.header, header, sizeof entry.header);
  std::memcpy(entry.inside, &reference, sizeof reference);
  publish(entry, Where::kReferred, 0, length, {token, 0, false, true});
  return true;
}

// The last store pairs with the reader's load of `sequence`, and comes before the look at whether
// the reader is asleep (README.md: no wake-up is lost).
void Sender::publish(Entry& entry, Where where, uint32_t offset, uint32_t length,
                     const Frame& frame) {
  entry.length.store(length, std::memory_order_relaxed);
  entry.where.store(static_cast<uint32_t>(where), std::memory_order_relaxed);
  entry.offset.store(offset, std::memory_order_relaxed);
  frames_[published_ % kEntries] = frame;
  if (frame.owes) ++owed_;
  ++published_;
  entry.sequence.store(published_, std::memory_order_seq_cst);
}

// Pairs with the reader's store of `consumed`: what was read may be written again.
bool Sender::look() {
  const uint32_t consumed = theirs_->consumed.load(std::memory_order_seq_cst);
  if (consumed - consumed_ > published_ - consumed_) return false;
  for (; consumed_ != consumed; ++consumed_) {
    const Frame& frame = frames_[consumed_ % kEntries];
    if (!frame.in_ring) continue;
    tail_ = frame.end;
    if (--ring_frames_ == 0) head_ = tail_ = 0;
  }
  if (owed_ == 0) settled_ = consumed_;
  return true;
}

int Sender::settle(const tbcclTransportCallbacks_t& callbacks, void* user) {
  if (settling_ || stopped_) return 0;
  settling_ = true;
  int happened = 0;
  while (settled_ != consumed_) {
    const Frame frame = frames_[settled_ % kEntries];
    ++settled_;
    if (!frame.owes) continue;
    --owed_;
    ++happened;
    callbacks.sent(callbacks.self, user, frame.token);
    if (stopped_) break;
  }
  settling_ = false;
  return happened;
}

void Sender::stop() {
  stopped_ = true;
  asked_ = false;
  owed_ = 0;
}

}  // namespace tbccl::shm
