// Threads that wait for requests without holding the token.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tbccl::engine {

struct Request;
class Home;

// One sleeping thread; on its stack.
struct Waiter {
  // Until signalled, or the time.
  void sleep(uint64_t deadline);
  void signal();

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool signalled_ = false;
};

// The waiting threads of one lane. Any thread.
class Waiters {
 public:
  // Afterwards the caller looks once more whether it has to sleep at all. False: there is no
  // memory for it, and nobody will signal.
  bool add(Waiter* waiter, Request* request) noexcept;
  void remove(Waiter* waiter, Request* request);
  // Wakes one of them, so that it takes the token. False: none sleeps.
  bool hand_over();
  // After Request::complete was set.
  void completed(Request* request);

  // Threads that would take the token if it were free: sleeping ones, and those that are about to.
  // A worker gives way to them.
  std::atomic<int> wanting{0};

 private:
  std::atomic<int> asleep_{0};
  // Several may wait for one request: that of calls that were joined.
  struct Asleep {
    Waiter* waiter;
    Request* request;
  };
  std::mutex mutex_;
  std::vector<Asleep> list_;
};

// How a thread spends its time while nothing happens: busy, then yielding, then it should sleep.
class Pace {
 public:
  Pace(uint64_t spin_ns, uint64_t yield_ns) : spin_ns_(spin_ns), yield_ns_(yield_ns) {}
  void progressed(uint64_t now) { since_ = now; }
  // Passes a moment. False: time to sleep.
  bool pass(uint64_t now);

 private:
  uint64_t spin_ns_, yield_ns_;
  uint64_t since_ = 0;
};

}  // namespace tbccl::engine
