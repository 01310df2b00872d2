// Calls that start when a flag in memory or a descriptor fires. Only the holder of the token.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/poller.h"
#include "engine/request.h"

namespace tbccl::engine {

// Sleeps are no longer than this while a flag is being waited for.
inline constexpr uint64_t kFlagNapNs = 1'000'000;

class Gates {
 public:
  enum class Answer { kWait, kStart, kBad };  // kBad: the descriptor is not open

  explicit Gates(Poller& poller) : poller_(poller) {}

  // May the request at the front of its channel's queue start? While the answer is kWait it is
  // registered here; it is to be asked about again, or forgotten.
  Answer ask(Request* request);
  void forget(Request* request);
  bool empty() const { return waiting_.empty(); }
  // Longest sleep that is allowed.
  uint64_t nap() const { return flags_ > 0 ? kFlagNapNs : kNever; }
  // After a sleep the descriptors are looked at at once.
  void awake() { looked_at_ = 0; }
  // Before a walk over waiting() in which each is asked about: descriptors are looked at only every
  // 100 us, flags each time. False: nothing to ask.
  bool begin_walk(uint64_t now);
  const std::vector<Request*>& waiting() const { return waiting_; }

 private:
  static constexpr uint64_t kLookNs = 100'000;

  Answer fired(const Call& call) const;
  bool watched_by_another(int descriptor) const;

  Poller& poller_;
  std::vector<Request*> waiting_;
  int flags_ = 0;
  bool looking_ = true;  // at descriptors that are registered
  uint64_t looked_at_ = 0;
};

}  // namespace tbccl::engine
