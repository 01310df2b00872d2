// The frames that one end receives: reads the other end's region, and says in its own how far it
// is.
#pragma once

#include <cstdint>

#include "shm/layout.h"
#include "tbccl/transport.h"

namespace tbccl::shm {

class Receiver {
 public:
  struct Frame {
    uint8_t header[TBCCL_FRAME_HEADER_BYTES];
    uint32_t length;
    const void* payload;         // NULL: where `reference` says
    tbcclReference_t reference;  // untrusted
  };
  enum class Next { kNothing, kFrame, kMalformed };

  // Both regions outlive this. Nothing is received before.
  void start(TrunkRegion* mine, const TrunkRegion* theirs);

  // The next frame, if it has been published. Its payload stays until done().
  Next next(Frame* frame) const;
  // The frame of next() is not looked at any more.
  void done();
  // After some done(): pairs with the sender's look before it sleeps, so that one of both sees the
  // other (README.md: no wake-up is lost).
  void tell() { mine_->consumed.store(consumed_, std::memory_order_seq_cst); }

 private:
  TrunkRegion* mine_ = nullptr;
  const TrunkRegion* theirs_ = nullptr;
  uint32_t consumed_ = 0;
};

}  // namespace tbccl::shm
