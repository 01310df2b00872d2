// Memory of one end that the other end reads itself. The closing end waits until the reading end
// has finished; README.md has the argument.
#pragma once

#include "shm/layout.h"

namespace tbccl::shm {

// For the time of a deliver() out of the peer's own memory.
class Reading {
 public:
  // `mine`: the reading end's region, `theirs`: the owner's.
  Reading(TrunkRegion& mine, const TrunkRegion& theirs);
  ~Reading();
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  // False: the owner has closed, the memory must not be read.
  bool allowed() const { return allowed_; }

  // This thread is inside a Reading of that end.
  static bool by_this_thread(const TrunkRegion& reader);

 private:
  TrunkRegion& mine_;
  bool allowed_;
  Reading* outer_;
};

// The owner's side: when it returns true, the other end does not read memory of `mine`'s end, and
// never will. `theirs`: the other end's region. False: it has been reading for `limit_ns`; its
// process has died or been stopped there.
bool end_lending(TrunkRegion& mine, const TrunkRegion& theirs, uint64_t limit_ns);

}  // namespace tbccl::shm
