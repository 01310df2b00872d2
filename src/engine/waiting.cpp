#include "engine/waiting.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <thread>

#include "engine/home.h"
#include "engine/joint.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tbccl::engine {
namespace {

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Instead of a sleep that somebody would end.
void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// Counts this thread among those that want the token, until its end: no exception leaves the
// worker giving way to nobody.
class Wanting {
 public:
  explicit Wanting(Waiters& waiters) : waiters_(waiters) { waiters_.wanting.fetch_add(1); }
  ~Wanting() { waiters_.wanting.fetch_sub(1); }
  Wanting(const Wanting&) = delete;
  Wanting& operator=(const Wanting&) = delete;

 private:
  Waiters& waiters_;
};

// Carries a call on as long as it moves, and a little longer; true: it is done.
bool sprint(Board& board, uint64_t spin_ns) {
  constexpr uint64_t kLimitNs = 50'000;
  constexpr int kLooks = 32;            // between two at the clock
  constexpr int kLooksBeforeYield = 8;  // they cost a tenth of a yield
  uint64_t start = 0;
  for (;;) {
    for (int look = 0; look < kLooks; ++look) {
      uint64_t budget = kSliceBytes;
      board.advance(&budget);
      if (board.done()) return true;
      if (budget < kSliceBytes / 2) break;  // that took a while
      if (spin_ns == 0 && look % kLooksBeforeYield == kLooksBeforeYield - 1) {
        sched_yield();
      } else {
        relax();
      }
    }
    const uint64_t now = now_ns();
    if (start == 0) start = now;
    if (now - start >= kLimitNs) return false;
    if (spin_ns != 0 && now - start >= spin_ns) sched_yield();
  }
}

uint64_t deadline_of(uint64_t timeout_ns) {
  if (timeout_ns == kNever) return kNever;
  const uint64_t now = now_ns();
  return timeout_ns > kNever - now ? kNever : now + timeout_ns;
}

}  // namespace

bool Pace::pass(uint64_t now) {
  if (since_ == 0) since_ = now;
  const uint64_t idle = now - since_;
  if (idle < spin_ns_) {
    relax();
    return true;
  }
  if (idle >= std::max(spin_ns_, yield_ns_)) return false;
  sched_yield();
  return true;
}

void Waiter::sleep(uint64_t deadline) {
  std::unique_lock lock(mutex_);
  while (!signalled_) {
    if (deadline == kNever) {
      condition_.wait(lock);
      continue;
    }
    const uint64_t now = now_ns();
    if (now >= deadline) return;
    condition_.wait_for(
        lock, std::chrono::nanoseconds(std::min<uint64_t>(deadline - now, 1'000'000'000)));
  }
}

void Waiter::signal() {
  const std::lock_guard lock(mutex_);
  signalled_ = true;
  condition_.notify_one();
}

bool Waiters::add(Waiter* waiter, Request* request) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    list_.push_back({waiter, request});
  } catch (const std::bad_alloc&) {
    return false;
  }
  asleep_.fetch_add(1);
  return true;
}

void Waiters::remove(Waiter* waiter, Request* request) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(list_.begin(), list_.end(), [&](const Asleep& a) {
    return a.waiter == waiter && a.request == request;
  });
  if (at == list_.end()) return;  // not added
  list_.erase(at);
  asleep_.fetch_sub(1);
}

bool Waiters::hand_over() {
  if (asleep_.load() == 0) return false;
  const std::lock_guard lock(mutex_);
  if (list_.empty()) return false;
  list_.front().waiter->signal();
  return true;
}

void Waiters::completed(Request* request) {
  if (asleep_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  for (const Asleep& a : list_) {
    if (a.request == request) a.waiter->signal();
  }
}

// Without the token: for a while the request may complete, or the token become free, any moment.
void Home::wait_for_holder(Request* request, uint64_t deadline) {
  const Wanting wanting(waiters);
  const auto may_go = [&] { return request->complete.load() || may_take(); };
  Pace pace(spin_ns, yield_ns);
  bool go = may_go();
  for (uint64_t now = now_ns(); !go && now < deadline && pace.pass(now); now = now_ns()) {
    go = may_go();
  }
  if (!go) {
    Waiter waiter;
    if (!waiters.add(&waiter, request)) return nap();
    if (!may_go()) waiter.sleep(deadline);
    waiters.remove(&waiter, request);
  }
}

bool Home::wait(Request* request, uint64_t timeout_ns) {
  const auto done = [request] { return request->complete.load(); };
  if (done()) return true;
  waited_for();
  const uint64_t deadline = deadline_of(timeout_ns);
  bool complete = false;
  while (!(complete = done()) && now_ns() < deadline) {
    if (const Holding holding(*this); holding) return hold(done, deadline, kNever);
    wait_for_holder(request, deadline);
  }
  // The token may have been handed over to this thread in the meantime.
  ensure_served();
  return complete;
}

std::optional<Status> Home::run_tiny(Channel* channel, const Call& call) {
  const Holding holding(*this);
  if (!holding) return std::nullopt;
  Request* const request = core.start_tiny(channel, call, this);
  if (request == nullptr) return std::nullopt;
  hold([request] { return request->phase == Request::Phase::kComplete; }, kNever, kNever);
  return request->result;
}

std::optional<Status> Home::run_on_board(Channel* channel, const Call& call) {
  const Holding holding(*this);
  if (!holding || !core.quiet()) return std::nullopt;
  const uint64_t number = channel->take_number();
  if (number == 0) return std::nullopt;
  Board& board = *channel->board;
  board.begin(call, reduce::size_of(call.reduction.type));
  // Most short calls are over before anybody need know of them.
  if (sprint(board, spin_ns)) {
    if (call.joint != nullptr) call.joint->scatter();
    channel->outstanding.fetch_sub(1);
    // What else goes on on the links must not wait for a pause between such calls.
    if (++sprints_ % kSprintsPerRound == 0) core.round();
    return Status();
  }
  Request* const request = core.adopt(channel, call, number, this);
  hold([request] { return request->phase == Request::Phase::kComplete; }, kNever, kNever);
  return request->result;
}

bool Home::drive(const std::function<bool(link::Links&)>& done, uint64_t deadline) {
  constexpr uint64_t kNap = 1'000'000;  // `done` may look at things that ring no bell
  for (;;) {
    if (const Holding holding(*this); holding) {
      return hold([&] { return done(core.links()); }, deadline, kNap);
    }
    bool answer = false;
    visit([&](Core& c) { answer = done(c.links()); });
    if (answer) return true;
    if (now_ns() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kNap));
  }
}

namespace {

// Progress of several lanes by one thread that holds none of them for longer than a round.
class AnyWait {
 public:
  AnyWait(Request* const* requests, int count) : requests_(requests), count_(count) {
    for (int i = 0; i < count; ++i) {
      if (requests[i] == nullptr) continue;
      Home* const home = requests[i]->home;
      if (std::find(homes_.begin(), homes_.end(), home) == homes_.end()) homes_.push_back(home);
    }
  }

  int complete() const {
    for (int i = 0; i < count_; ++i) {
      if (requests_[i] != nullptr && requests_[i]->complete.load()) return i;
    }
    return -1;
  }

  // Until one is complete, the time is over, or there was no progress for a while.
  int progress(uint64_t deadline) {
    for (Home* home : homes_) {
      home->waiters.wanting.fetch_add(1);
      home->waited_for();
    }
    Pace pace(homes_.front()->spin_ns, homes_.front()->yield_ns);
    int found = complete();
    for (uint64_t now = now_ns(); found < 0 && now < deadline; now = now_ns()) {
      bool progressed = false;
      for (Home* home : homes_) {
        if (!home->take()) continue;
        progressed |= home->core.round();
        home->flush();
        home->token.release();
      }
      found = complete();
      if (progressed) {
        pace.progressed(now);
      } else if (!pace.pass(now)) {
        break;
      }
    }
    for (Home* home : homes_) {
      home->waiters.wanting.fetch_sub(1);
      home->ensure_served();
    }
    return found;
  }

  void sleep(uint64_t deadline) {
    Waiter waiter;
    bool added = true;
    for_each([&](Request* r) { added = r->home->waiters.add(&waiter, r) && added; });
    if (!added) {
      nap();
    } else if (complete() < 0) {
      waiter.sleep(deadline);
    }
    for_each([&](Request* r) { r->home->waiters.remove(&waiter, r); });
    for (Home* home : homes_) home->ensure_served();
  }

 private:
  template <class F>
  void for_each(const F& f) {
    for (int i = 0; i < count_; ++i) {
      if (requests_[i] != nullptr) f(requests_[i]);
    }
  }

  Request* const* requests_;
  int count_;
  std::vector<Home*> homes_;
};

}  // namespace

Status wait_any(Request* const* requests, int count, uint64_t timeout_ns, int* index) {
  const bool none = std::all_of(requests, requests + std::max(count, 0),
                                [](const Request* r) { return r == nullptr; });
  if (none) return Status(tbcclInvalidArgument, "wait-any was given no request");
  for (int i = 0; i < count; ++i) {
    if (requests[i] != nullptr && requests[i]->home->in_child()) return forked_error();
  }
  const uint64_t deadline = deadline_of(timeout_ns);
  AnyWait any(requests, count);
  for (;;) {
    const int found = any.progress(deadline);
    if (found >= 0) {
      *index = found;
      return requests[found]->result;
    }
    if (now_ns() >= deadline) {
      return Status(tbcclInProgress, "none of the requests has completed in the given time");
    }
    any.sleep(deadline);
  }
}

}  // namespace tbccl::engine
