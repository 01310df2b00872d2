// The frames that one end sends: it alone writes the region they lie in.
#pragma once

#include <cstdint>

#include "shm/layout.h"
#include "tbccl/transport.h"

namespace tbccl::shm {

class Sender {
 public:
  // Both regions outlive this. Nothing is sent or looked at before.
  void start(TrunkRegion* mine, const TrunkRegion* theirs);

  // False: there is no room; look() and settle() may make some. `owes`: the token is reported by
  // settle() when the peer has consumed the frame.
  bool send(const void* header, const void* payload, uint32_t length, uint64_t token, bool owes);
  // The payload is where the reference says, and stays there until its token is reported.
  bool send_reference(const void* header, const tbcclReference_t& reference, uint32_t length,
                      uint64_t token);

  // Reads how far the peer is. False: the number makes no sense.
  bool look();
  // Reports the tokens of what was consumed; returns how many. A callback may send and close.
  int settle(const tbcclTransportCallbacks_t& callbacks, void* user);

  // A frame of this length was refused: ready() says when it would not be.
  void ask(uint32_t length) { asked_ = true, wanted_ = length; }
  bool ready() const;
  void answered() { asked_ = false; }
  // It matters to this end when the peer consumes.
  bool awaiting() const { return asked_ || owed_ > 0; }
  // Everything that was sent has been consumed, as far as this moment tells.
  bool idle() const { return theirs_->consumed.load(std::memory_order_acquire) == published_; }
  // No callback is made any more.
  void stop();

 private:
  struct Frame {
    uint64_t token;
    uint32_t end;  // of its bytes in the ring
    bool in_ring;
    bool owes;
  };

  bool fits_ring(uint32_t length, uint32_t* offset) const;
  Entry* next(uint32_t length);
  void publish(Entry& entry, Where where, uint32_t offset, uint32_t length, const Frame& frame);

  TrunkRegion* mine_ = nullptr;
  const TrunkRegion* theirs_ = nullptr;
  // Counts of frames, modulo 2^32: settled_ <= consumed_ <= published_ <= settled_ + kEntries.
  uint32_t published_ = 0;
  uint32_t consumed_ = 0;
  uint32_t settled_ = 0;
  uint32_t owed_ = 0;  // tokens not yet reported
  // The ring is in use from tail_ up to head_, around its end; not at all if ring_frames_ is 0.
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  uint32_t ring_frames_ = 0;
  uint32_t wanted_ = 0;
  bool asked_ = false;
  bool settling_ = false;
  bool stopped_ = false;
  Frame frames_[kEntries];
};

}  // namespace tbccl::shm
