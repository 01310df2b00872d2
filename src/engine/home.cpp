#include "engine/home.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>

#ifdef __linux__
#include <sched.h>
#endif

namespace tbccl::engine {
namespace {

int usable_cores() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

// A function that waits in the inbox for the holder.
struct Visit final : Item {
  explicit Visit(const std::function<void(Core&)>& f) : Item(Kind::kVisit), function(f) {}
  const std::function<void(Core&)>& function;
  std::mutex mutex;
  std::condition_variable condition;
  bool done = false;
  std::exception_ptr thrown;  // by the function: the visitor's, not the holder's
};

}  // namespace

void run_visit(Item* item, Core& core) {
  auto* const visit = static_cast<Visit*>(item);
  try {
    visit->function(core);
  } catch (...) {
    visit->thrown = std::current_exception();
  }
  const std::lock_guard lock(visit->mutex);
  visit->done = true;
  visit->condition.notify_one();
}

Home::Home(const LaneOptions& options, const link::Options& link_options, LaneEvents& events)
    : spin_ns(options.runnable_ranks > usable_cores() ? 0 : options.settings.spin_ns),
      yield_ns(options.settings.yield_ns),
      core(link_options, events, Core::Parts{&token, &inbox, &poller, &waiters, &callbacks}),
      worker(*this),
      generation_(fork_generation()) {
  note_lane();
  status = poller.open();
  if (status.ok()) status = worker.start(options);
}

bool Home::may_take() const {
  const Token::State state = token.state();
  return state == Token::State::kFree || state == Token::State::kListening;
}

bool Home::take() {
  const Token::Taken taken = token.try_take();
  // The worker leaves the poller, so that no two threads listen on one trunk.
  if (taken == Token::Taken::kFromListener) {
    poller.ring();
    core.awake();
  }
  return taken != Token::Taken::kNo;
}

void Home::flush() noexcept {
  try {
    core.links().flush();
  } catch (...) {
    core.failed();
  }
}

void Home::leave() noexcept {
  flush();
  token.release();
  ensure_served();
}

void Home::ensure_served() {
  if (token.state() != Token::State::kFree) return;
  if (core.unfinished() == 0 && inbox.empty()) {
    worker.note_free();
    return;
  }
  if (waiters.hand_over()) return;
  // Threads on their way to the token take it, or call this again.
  if (waiters.wanting.load() == 0) worker.wake();
}

void Home::pushed() {
  const Token::State state = token.state();
  if (state == Token::State::kSleeping || state == Token::State::kListening) {
    poller.ring();
  } else if (state == Token::State::kFree) {
    ensure_served();
  }
}

void Home::submitted(const Call& call) {
  const bool prompt = prompt_waits_.load(std::memory_order_relaxed) >= kPromptWaits &&
                      call.callback == nullptr &&
                      call.count <= kPromptBytes / reduce::size_of(call.reduction.type);
  submitted_at_.store(now_ns(), std::memory_order_relaxed);
  if (!prompt || !worker.napping() || token.state() != Token::State::kFree) pushed();
}

void Home::left_alone() {
  if (inbox.empty() && core.unfinished() == 0) return;
  prompt_waits_.store(0, std::memory_order_relaxed);
}

void Home::waited_for() {
  const uint64_t at = submitted_at_.load(std::memory_order_relaxed);
  if (at == 0) return;
  submitted_at_.store(0, std::memory_order_relaxed);
  const int before = prompt_waits_.load(std::memory_order_relaxed);
  const bool prompt = now_ns() - at < kPromptNs;
  prompt_waits_.store(prompt ? std::min(before + 1, kPromptWaits) : 0, std::memory_order_relaxed);
}

void Home::look() {
  waited_for();
  if (!take()) return;
  core.round();
  flush();
  token.release();
  if (waiters.hand_over() || worker.napping()) return;
  ensure_served();
}

void Home::sleep(uint64_t deadline, uint64_t nap) {
  flush();
  token.sleep();
  // Once more, now that everybody sees that this thread is about to sleep.
  const bool awake = core.about_to_sleep() || !inbox.empty();
  if (!awake) {
    const uint64_t time = std::min(core.sleep_time(deadline), nap);
    if (time > 0) poller.wait(time);
  }
  core.awake();
  token.wake();
}

void Home::visit(const std::function<void(Core&)>& f) {
  if (token.mine()) {
    f(core);
    return;
  }
  if (const Holding holding(*this); holding) {
    f(core);
    return;
  }
  Visit visit(f);
  inbox.push(&visit);
  pushed();
  std::unique_lock lock(visit.mutex);
  visit.condition.wait(lock, [&] { return visit.done; });
  if (visit.thrown != nullptr) std::rethrow_exception(visit.thrown);
}

}  // namespace tbccl::engine
