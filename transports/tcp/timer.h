// A point in time as a descriptor, so that a sleeping lane is woken for it.
#pragma once

#include <cstdint>

#include "tcp/descriptor.h"

namespace tbccl::tcp {

class Timer {
 public:
  bool open();  // false: errno
  int descriptor() const { return descriptor_.get(); }
  // Readable from now_ns() == `time` on, until the next arm(); kNever: never. A system call only
  // when the time changes, or has passed.
  void arm(uint64_t time, uint64_t now);
  void abandon() { descriptor_.release(); }

 private:
  Descriptor descriptor_;            // timerfd, or a kqueue of its own
  uint64_t armed_for_ = UINT64_MAX;  // kNever
};

}  // namespace tbccl::tcp
