#include "base/timer.h"

#include <algorithm>
#include <ctime>

#ifdef __linux__
#include <sys/timerfd.h>
#else
#include <fcntl.h>
#include <sys/event.h>
#endif

namespace tbccl {

#ifdef __linux__

bool Timer::open() {
  descriptor_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  return descriptor_.open();
}

void Timer::arm(uint64_t time, uint64_t now) {
  if (time == armed_for_ && time > now) return;
  armed_for_ = time;
  // Setting it also takes back what has expired. A value of zero would mean never.
  itimerspec when{};
  if (time != kNever) {
    const uint64_t at = std::max<uint64_t>(time, 1);
    when.it_value.tv_sec = static_cast<time_t>(at / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(at % 1'000'000'000);
  }
  timerfd_settime(descriptor_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

#else

bool Timer::open() {
  descriptor_ = Descriptor(kqueue());
  if (!descriptor_.open()) return false;
  fcntl(descriptor_.get(), F_SETFD, FD_CLOEXEC);
  return true;
}

void Timer::arm(uint64_t time, uint64_t now) {
  if (time == armed_for_ && time > now) return;
  armed_for_ = time;
  struct kevent event;
  const timespec at_once{};
  kevent(descriptor_.get(), nullptr, 0, &event, 1, &at_once);  // takes back what has expired
  if (time == kNever) {
    EV_SET(&event, 1, EVFILT_TIMER, EV_DELETE, 0, 0, nullptr);
  } else {
    const uint64_t left = std::max<uint64_t>(time > now ? time - now : 0, 1);
    EV_SET(&event, 1, EVFILT_TIMER, EV_ADD | EV_ONESHOT, NOTE_NSECONDS, static_cast<intptr_t>(left),
           nullptr);
  }
  kevent(descriptor_.get(), &event, 1, nullptr, 0, nullptr);
}

#endif

}  // namespace tbccl
