// Where a lane sleeps: the one place in the process of a rank that waits for the kernel.
//
// watch() and wait() belong to the holder of the lane's token; ring() may be called by any
// thread and from a signal handler.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "link/links.h"

namespace tbccl::engine {

class Poller final : public link::Watcher {
 public:
  Poller() = default;
  ~Poller() override;
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Makes the descriptors (epoll and eventfd, or kqueue and a pipe; all close-on-exec). Before it
  // has succeeded, and after forget_in_child(), nothing is watched and wait() returns at once.
  Status open();

  // The set of events, 1 read and 2 write, for which the descriptor ends a wait(), as long as it is
  // ready (level-triggered). 0 forgets it and must come before it is closed. Costs a system call
  // only when the set changes.
  void watch(int descriptor, int events) override;

  // Sleeps until a watched descriptor is ready, the bell has been rung, or the time is over
  // (kNever: no limit; rounded up to milliseconds; 0 only looks). Silences the bell. True:
  // something is ready, and everything that was written before the ring() that ended it is visible.
  bool wait(uint64_t timeout_ns);

  // Ends the current wait(), or the next one. Rings that come while one is pending cost nothing.
  void ring();

  // In a child made by fork(): gives up the descriptors without touching what the parent watches.
  void forget_in_child();

 private:
  bool change(int descriptor, int from, int to);
  bool sleep(int timeout_ms);
  void drain();

  int queue_ = -1;      // epoll or kqueue
  int bell_read_ = -1;  // eventfd (then both are the same), or a pipe
  int bell_write_ = -1;
  // Descriptors that the kernel refused to watch. Counted by the holder while a worker that has
  // lost the token to it may still be entering wait().
  std::atomic<int> unwatchable_{0};
  std::atomic<bool> rung_{false};
  std::vector<uint8_t> events_;  // by descriptor: what is watched, and kRefused
};

}  // namespace tbccl::engine
