#include "shm/lending.h"

#include <sched.h>

#include "base/clock.h"

namespace tbccl::shm {
namespace {

// The readings that this thread is inside of, innermost first: with several contexts in one thread
// a callback of one may close the other end of the trunk it was called for.
thread_local Reading* innermost = nullptr;

}  // namespace

// Sets `reading`, then looks at `closed`; end_lending() sets `closed`, then looks at `reading`. One
// of both sees the other, all four being sequentially consistent.
Reading::Reading(TrunkRegion& mine, const TrunkRegion& theirs) : mine_(mine), outer_(innermost) {
  innermost = this;
  mine_.reading.exchange(1, std::memory_order_seq_cst);
  allowed_ = theirs.closed.load(std::memory_order_seq_cst) == 0;
}

Reading::~Reading() {
  innermost = outer_;
  mine_.reading.store(0, std::memory_order_release);
}

bool Reading::by_this_thread(const TrunkRegion& reader) {
  for (const Reading* at = innermost; at != nullptr; at = at->outer_) {
    if (&at->mine_ == &reader) return true;
  }
  return false;
}

bool end_lending(TrunkRegion& mine, const TrunkRegion& theirs, uint64_t limit_ns) {
  // Closed from inside the deliver() of this end: its payload is not valid any more, and the other
  // end, which may be closing as well, need not wait for it.
  if (Reading::by_this_thread(mine)) mine.reading.store(0, std::memory_order_release);
  mine.closed.exchange(1, std::memory_order_seq_cst);
  if (Reading::by_this_thread(theirs)) return true;
  const uint64_t start = now_ns();
  while (theirs.reading.load(std::memory_order_seq_cst) != 0) {
    if (now_ns() - start >= limit_ns) return false;
    sched_yield();
  }
  return true;
}

}  // namespace tbccl::shm
