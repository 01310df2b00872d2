// A lane's parts put together, and how threads come by its token and give it up.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "engine/callbacks.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "engine/fork.h"
#include "engine/inbox.h"
#include "engine/poller.h"
#include "engine/token.h"
#include "engine/waiting.h"
#include "engine/worker.h"

namespace tbccl::engine {

class Home {
 public:
  Home(const LaneOptions& options, const link::Options& link_options, LaneEvents& events);

  // Takes the token if it is free, or from the listening worker.
  bool take();
  bool may_take() const;
  // Holder: makes progress until done(), or the time; sleeps at most `nap` at once.
  template <class Done>
  bool hold(const Done& done, uint64_t deadline, uint64_t nap);
  // Gives the token up and sees to it that what is outstanding goes on.
  void leave() noexcept;
  void flush() noexcept;  // held-back acknowledgements, and what else the links put off
  // After pushing to the inbox, by a thread that will not take the token itself.
  void pushed();
  // After pushing a request that the user may wait for. Where waits have lately come right behind
  // submissions, nobody is woken for a short call: the waiter will take the token, or else the
  // worker finds the request at the end of its nap. Long calls and those with callbacks ring
  // always.
  void submitted(const Call& call);
  // The worker, at the end of a nap: something was left to it, so that the next submissions ring.
  void left_alone();
  // A thread begins to wait for a request.
  void waited_for();
  // A thread looks whether a request is complete, and does not wait: it makes a round, if nobody
  // else does. Whoever only looks will look again, so that the worker is left to its nap.
  void look();
  // Nobody holds the token and something is outstanding: somebody is woken.
  void ensure_served();

  // Runs f while nobody else touches the lane: here, or by whoever holds the token.
  void visit(const std::function<void(Core&)>& f);
  bool wait(Request* request, uint64_t timeout_ns);
  // A short blocking call while nothing else is outstanding; nothing is done where something is.
  std::optional<Status> run_tiny(Channel* channel, const Call& call);
  // Likewise, over the channel's board, and of any length.
  std::optional<Status> run_on_board(Channel* channel, const Call& call);
  bool drive(const std::function<bool(link::Links&)>& done, uint64_t deadline);

  bool in_child() const { return generation_ != fork_generation(); }

  const uint64_t spin_ns;  // 0 where more ranks run than there are cores
  const uint64_t yield_ns;
  Status status;  // not ok: the system refused what a lane needs; nothing works

  Token token;
  Inbox inbox;
  Poller poller;
  Waiters waiters;
  Callbacks callbacks;
  Core core;
  Worker worker;

 private:
  void wait_for_holder(Request* request, uint64_t deadline);
  // Holder: until a descriptor is ready, somebody rings, or a timer.
  void sleep(uint64_t deadline, uint64_t nap);

  static constexpr uint32_t kSprintsPerRound = 32;
  static constexpr uint64_t kPromptNs = 50'000;
  static constexpr uint64_t kPromptBytes = 64 * 1024;
  static constexpr int kPromptWaits = 4;

  const uint64_t generation_;
  uint32_t sprints_ = 0;                   // the holder's
  std::atomic<uint64_t> submitted_at_{0};  // 0: a wait has come since
  std::atomic<int> prompt_waits_{0};       // in a row
};

// Has the token, if it was to be had, until its end: no exception loses it.
class Holding {
 public:
  explicit Holding(Home& home) : home_(home), held_(home.take()) {}
  ~Holding() {
    if (held_) home_.leave();
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  explicit operator bool() const { return held_; }

 private:
  Home& home_;
  const bool held_;
};

template <class Done>
bool Home::hold(const Done& done, uint64_t deadline, uint64_t nap) {
  Pace pace(spin_ns, yield_ns);
  for (;;) {
    const bool progressed = core.round();
    if (done()) return true;
    const uint64_t now = core.now();
    if (now >= deadline) return false;
    if (progressed) {
      pace.progressed(now);
    } else if (!pace.pass(now)) {
      sleep(deadline, nap);
      pace.progressed(0);
    }
  }
}

}  // namespace tbccl::engine
