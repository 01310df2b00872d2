#include "engine/poller.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/clock.h"
#include "base/formatted.h"
#include "base/log.h"

#ifdef __linux__
#include <sys/epoll.h>
#include <sys/eventfd.h>
#else
#include <sys/event.h>
#endif

namespace tbccl::engine {
namespace {

constexpr int kRead = 1;
constexpr int kWrite = 2;
constexpr int kRefused = 4;         // in the table: the kernel does not watch this descriptor
constexpr int kRefusedNapMs = 1;    // then wait() looks this often
constexpr int kEventsPerWait = 32;  // more that are ready at once are reported by the next wait()

void close_descriptor(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

Status system_error(const char* call) {
  return Status(tbcclSystemError, formatted("the engine cannot wait for descriptors: {} failed: {}",
                                            call, std::strerror(errno)));
}

// Rounded up, so that a timer is never looked at too early; 0 stays 0.
int to_milliseconds(uint64_t ns) {
  if (ns == kNever) return -1;
  const uint64_t ms = ns / 1'000'000 + (ns % 1'000'000 != 0);
  return static_cast<int>(std::min<uint64_t>(ms, INT_MAX));
}

}  // namespace

Poller::~Poller() {
  close_descriptor(queue_);
  if (bell_write_ != bell_read_) close_descriptor(bell_write_);
  close_descriptor(bell_read_);
}

void Poller::watch(int descriptor, int events) {
  if (descriptor < 0 || queue_ < 0) return;
  const auto index = static_cast<size_t>(descriptor);
  if (index >= events_.size()) {
    if (events == 0) return;
    events_.resize(index + 1 + index / 2, 0);
  }
  const int now = events_[index];
  if (now == events) return;
  if (now & kRefused) --unwatchable_;
  events_[index] = static_cast<uint8_t>(events);
  if (change(descriptor, now & ~kRefused, events)) return;
  if (unwatchable_++ == 0) {
    log::error("descriptor {} cannot be watched ({}); looking at it every {} ms instead",
               descriptor, std::strerror(errno), kRefusedNapMs);
  }
  // `events` is not remembered: the next watch() tries again.
  events_[index] = kRefused;
}

bool Poller::wait(uint64_t timeout_ns) {
  if (queue_ < 0) return false;
  if (unwatchable_ > 0) {
    sleep(std::min(to_milliseconds(std::min<uint64_t>(timeout_ns, 1'000'000)), kRefusedNapMs));
    return true;
  }
  if (timeout_ns == 0 || timeout_ns == kNever) return sleep(to_milliseconds(timeout_ns));
  const uint64_t start = now_ns();
  for (uint64_t passed = 0;; passed = now_ns() - start) {
    if (passed >= timeout_ns) return false;
    errno = 0;
    if (sleep(to_milliseconds(timeout_ns - passed))) return true;
    if (errno != EINTR) return false;
  }
}

void Poller::ring() {
  if (rung_.exchange(true, std::memory_order_acq_rel)) return;
  const int saved = errno;  // a signal handler must leave it alone
#ifdef __linux__
  const uint64_t one = 1;
#else
  const char one = 1;
#endif
  while (::write(bell_write_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  errno = saved;
}

// First the descriptor, then the flag: a ring() that finds the flag still set is answered by the
// wait() that is ending, and sees to it (by the exchange) that its writes are visible here; one
// that finds it cleared writes again.
void Poller::drain() {
  char bytes[64];
  while (::read(bell_read_, bytes, sizeof bytes) < 0 && errno == EINTR) {
  }
  rung_.exchange(false, std::memory_order_acq_rel);
}

#ifdef __linux__

Status Poller::open() {
  queue_ = epoll_create1(EPOLL_CLOEXEC);
  if (queue_ < 0) return system_error("epoll_create1");
  bell_read_ = bell_write_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell_read_ < 0 || !change(bell_read_, 0, kRead)) {
    const Status status = system_error(bell_read_ < 0 ? "eventfd" : "epoll_ctl");
    forget_in_child();
    return status;
  }
  return {};
}

bool Poller::change(int descriptor, int from, int to) {
  epoll_event event{};
  event.data.fd = descriptor;
  if (to & kRead) event.events |= EPOLLIN;
  if (to & kWrite) event.events |= EPOLLOUT;
  if (to == 0) {
    epoll_ctl(queue_, EPOLL_CTL_DEL, descriptor, &event);
    return true;
  }
  const int first = from ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(queue_, first, descriptor, &event) == 0) return true;
  // The number may have been closed and reused behind our back, or was refused before.
  if (errno != ENOENT && errno != EEXIST) return false;
  return epoll_ctl(queue_, errno == ENOENT ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) ==
         0;
}

bool Poller::sleep(int timeout_ms) {
  epoll_event ready[kEventsPerWait];
  const int count = epoll_wait(queue_, ready, kEventsPerWait, timeout_ms);
  for (int i = 0; i < count; ++i) {
    if (ready[i].data.fd == bell_read_) drain();
  }
  return count > 0;
}

void Poller::forget_in_child() {
  // Closing the copies leaves the parent's epoll and its interests as they are.
  if (bell_write_ != bell_read_) close_descriptor(bell_write_);
  bell_write_ = -1;
  close_descriptor(bell_read_);
  close_descriptor(queue_);
  events_.clear();
  unwatchable_ = 0;
}

#else

Status Poller::open() {
  queue_ = kqueue();
  if (queue_ < 0) return system_error("kqueue");
  fcntl(queue_, F_SETFD, FD_CLOEXEC);
  int ends[2];
  if (pipe(ends) != 0) {
    const Status status = system_error("pipe");
    close_descriptor(queue_);
    return status;
  }
  bell_read_ = ends[0];
  bell_write_ = ends[1];
  for (const int end : ends) {
    fcntl(end, F_SETFD, FD_CLOEXEC);
    fcntl(end, F_SETFL, O_NONBLOCK);
  }
  if (!change(bell_read_, 0, kRead)) {
    const Status status = system_error("kevent");
    close_descriptor(queue_);
    close_descriptor(bell_read_);
    close_descriptor(bell_write_);
    return status;
  }
  return {};
}

bool Poller::change(int descriptor, int from, int to) {
  bool done = true;
  for (const int event : {kRead, kWrite}) {
    if ((from & event) == (to & event)) continue;
    struct kevent entry;
    EV_SET(&entry, static_cast<uintptr_t>(descriptor), event == kRead ? EVFILT_READ : EVFILT_WRITE,
           to & event ? EV_ADD : EV_DELETE, 0, 0, nullptr);
    if (kevent(queue_, &entry, 1, nullptr, 0, nullptr) != 0 && (to & event)) done = false;
  }
  return done;
}

bool Poller::sleep(int timeout_ms) {
  struct kevent ready[kEventsPerWait];
  timespec timeout{};
  timeout.tv_sec = timeout_ms / 1000;
  timeout.tv_nsec = (timeout_ms % 1000) * 1'000'000L;
  const int count =
      kevent(queue_, nullptr, 0, ready, kEventsPerWait, timeout_ms < 0 ? nullptr : &timeout);
  for (int i = 0; i < count; ++i) {
    if (static_cast<int>(ready[i].ident) == bell_read_) drain();
  }
  return count > 0;
}

void Poller::forget_in_child() {
  // A child does not inherit the kqueue: its number may already be another descriptor.
  queue_ = -1;
  close_descriptor(bell_read_);
  close_descriptor(bell_write_);
  events_.clear();
  unwatchable_ = 0;
}

#endif

}  // namespace tbccl::engine
