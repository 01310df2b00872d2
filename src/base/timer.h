// A point in time as a descriptor, so that a thread that sleeps on descriptors is woken for it.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/descriptor.h"

namespace tbccl {

class Timer {
 public:
  bool open();  // false: errno
  int descriptor() const { return descriptor_.get(); }
  // Readable from now_ns() == `time` on, until the next arm(); kNever: never. A system call only
  // when the time changes, or has passed.
  void arm(uint64_t time, uint64_t now);
  // In a forked child: the number may be another file's by now.
  void abandon() { descriptor_.release(); }

 private:
  Descriptor descriptor_;  // timerfd, or a kqueue of its own
  uint64_t armed_for_ = kNever;
};

}  // namespace tbccl
