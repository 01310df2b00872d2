#include "rank.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "base/formatted.h"

namespace soak {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(120);  // for what has no deadline of its own
constexpr size_t kMostOutstanding = 40;

void count_callback(void* context, tbcclResult_t result) {
  auto* const pending = static_cast<Pending*>(context);
  if (result != tbcclSuccess) pending->bad_result.store(result);
  pending->callbacks.fetch_add(1);
}

std::vector<Role> roles(const Call& call, int rank) {
  if (call.operation != tbcclOpSend) return {Role::kWhole};
  std::vector<Role> all;
  if (rank == call.from) all.push_back(Role::kSender);
  if (rank == call.to) all.push_back(Role::kReceiver);
  return all;
}

}  // namespace

void fail(const Story& story, int rank, int step, const std::string& text) {
  fmt::print(
      stderr,
      "soak: FAILED: seed {}, epoch {} ({}), step {}, rank {}: {}\nagain with: soak --seed {} "
      "--epoch {}\n",
      story.seed, story.epoch, story.setting, step, rank, text, story.seed, story.epoch);
  std::fflush(stderr);
  std::_Exit(1);
}

Rank::Rank(const Story& story, int rank, int ranks, tbcclComm_t world, uint64_t seed)
    : story_(story),
      rank_(rank),
      plan_(seed, ranks),
      own_(derived(seed, 1000 + static_cast<uint64_t>(rank))),
      comms_{world} {}

void Rank::run(int steps) {
  for (int i = 0; i < steps; ++i) {
    step_.store(i, std::memory_order_relaxed);
    Step step = plan_.next();
    act(step);
    if (outstanding_.size() > kMostOutstanding) drain();
  }
  step_.store(steps, std::memory_order_relaxed);
  drain();
  for (size_t number = 0; number < persistent_.size(); ++number) free_persistent(number);
  for (int slot = plan_.slots(); slot-- > 0;) {
    if (plan_.slot(slot).alive) destroy(slot);
  }
}

void Rank::act(Step& step) {
  switch (step.action) {
    case Action::kBlocking:
      return run_blocking(step);
    case Action::kBatch:
      return run_batch(step);
    case Action::kGroup:
      return run_group(step);
    case Action::kThreads:
      return run_threads(step);
    case Action::kMake:
      return make_persistent(step);
    case Action::kStart:
      return start_persistent(step);
    case Action::kFree:
      return free_persistent(step.persistent.front());
    case Action::kSplit:
      return split(step);
    case Action::kDestroy:
      return destroy(step.slot);
    case Action::kDrain:
      return drain();
  }
}

Rank::Queue Rank::prepare(const Call& call) {
  Queue queue;
  const int rank = plan_.slot(call.slot).rank_of(rank_);
  if (rank < 0 || !takes_part(call, rank)) return queue;
  for (const Role role : roles(call, rank)) {
    queue.push_back(std::make_unique<Pending>(call, comm(call.slot), rank, role));
    const std::string trouble = queue.back()->exercise.prepare();
    if (!trouble.empty()) failed(trouble);
  }
  return queue;
}

std::vector<Rank::Queue> Rank::prepare_by_slot(const std::vector<Call>& calls) {
  std::map<int, Queue> queues;
  for (const Call& call : calls) {
    for (Owned& one : prepare(call)) queues[call.slot].push_back(std::move(one));
  }
  std::vector<Queue> all;
  for (auto& [slot, queue] : queues) all.push_back(std::move(queue));
  return all;
}

void Rank::submit(Pending& pending, bool with_request, bool in_group) {
  tbcclCall_t call = pending.exercise.submission();
  pending.calls_back = with_request && own_.chance(30);
  if (pending.calls_back) {
    call.callback = count_callback;
    call.callbackContext = &pending;
  }
  const bool conditional = with_request && !in_group && own_.chance(15);
  if (conditional) {
    call.startWhen = tbcclStartWhenFlag;
    call.flag = &pending.flag;
    call.flagValue = 1;
  }
  require(tbcclSubmit(&call, with_request ? &pending.request : nullptr), call.comm,
          pending.exercise.text());
  if (conditional) __atomic_store_n(&pending.flag, 1u, __ATOMIC_RELEASE);
  pending.in_progress = true;
  pending.wanted_callbacks += pending.calls_back ? 1 : 0;
  if (!in_group && own_.chance(50)) pending.exercise.drop_operator();
}

void Rank::run_blocking(const Step& step) {
  for (const Call& call : step.calls) {
    for (Owned& one : prepare(call)) {
      submit(*one, false, false);
      check(*one);
    }
  }
}

// Each rank mixes the communicators in its own way.
void Rank::run_batch(const Step& step) {
  std::vector<Queue> queues = prepare_by_slot(step.calls);
  for (Queue& queue : queues) std::reverse(queue.begin(), queue.end());
  while (!queues.empty()) {
    const size_t which = own_.below(queues.size());
    Queue& queue = queues[which];
    submit(*queue.back(), true, false);
    outstanding_.push_back(std::move(queue.back()));
    queue.pop_back();
    if (queue.empty()) queues.erase(queues.begin() + static_cast<std::ptrdiff_t>(which));
  }
}

// Collectives in their order, messages anywhere between them.
void Rank::run_group(const Step& step) {
  Queue calls, messages;
  for (const Call& call : step.calls) {
    for (Owned& one : prepare(call)) {
      (call.operation == tbcclOpSend ? messages : calls).push_back(std::move(one));
    }
  }
  own_.shuffle(messages);
  for (Owned& message : messages) {
    const auto at = static_cast<std::ptrdiff_t>(own_.below(calls.size() + 1));
    calls.insert(calls.begin() + at, std::move(message));
  }
  require(tbcclGroupStart(), nullptr, "group start");
  for (Owned& one : calls) submit(*one, step.requests, true);
  require(tbcclGroupEnd(), comm(0), "group end");
  for (Owned& one : calls) {
    if (step.requests) {
      outstanding_.push_back(std::move(one));
    } else {
      check(*one);
    }
  }
}

void Rank::run_threads(const Step& step) {
  std::vector<Queue> queues = prepare_by_slot(step.calls);
  std::vector<std::thread> threads;
  for (Queue& queue : queues) {
    threads.emplace_back([this, &queue] {
      for (Owned& one : queue) {
        const tbcclCall_t call = one->exercise.submission();
        require(tbcclSubmit(&call, nullptr), call.comm, one->exercise.text());
        const std::string trouble = one->exercise.check();
        if (!trouble.empty()) failed(trouble);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Rank::make_persistent(const Step& step) {
  persistent_.push_back(prepare(step.calls.front()));
  for (Owned& one : persistent_.back()) {
    tbcclCall_t call = one->exercise.submission();
    one->calls_back = own_.chance(50);
    if (one->calls_back) {
      call.callback = count_callback;
      call.callbackContext = one.get();
    }
    require(tbcclCallInit(&call, &one->request), call.comm, one->exercise.text() + ", made");
  }
}

// Outside groups a rank may make the call where another starts a request.
void Rank::start_persistent(const Step& step) {
  std::vector<tbcclRequest_t> requests;
  if (step.group) require(tbcclGroupStart(), nullptr, "group start");
  for (const size_t number : step.persistent) {
    const uint64_t seed = derived(step.seed, number);
    for (Owned& one : persistent_[number]) {
      const Call& call = one->exercise.call();
      const bool replaceable =
          call.combining == Combining::kNothing || call.combining == Combining::kBuiltIn;
      if (!step.group && replaceable && own_.chance(25)) {
        Call same = call;
        same.seed = seed;
        auto plain = std::make_unique<Pending>(
            same, comm(call.slot), plan_.slot(call.slot).rank_of(rank_), one->exercise.role());
        const std::string trouble = plain->exercise.prepare();
        if (!trouble.empty()) failed(trouble);
        submit(*plain, true, false);
        outstanding_.push_back(std::move(plain));
        continue;
      }
      if (one->in_progress) complete(*one);
      one->exercise.renew(seed);
      require(tbcclStart(one->request), comm(call.slot), one->exercise.text() + ", started");
      one->in_progress = true;
      one->wanted_callbacks += one->calls_back ? 1 : 0;
    }
  }
  if (step.group) require(tbcclGroupEnd(), comm(0), "group end");
}

void Rank::free_persistent(size_t number) {
  for (Owned& one : persistent_[number]) {
    if (one->in_progress) complete(*one);
    require(tbcclRequestFree(&one->request), nullptr, "freeing a request");
  }
  persistent_[number].clear();
}

void Rank::wait(Pending& pending) {
  const auto deadline = Clock::now() + kPatience;
  const uint64_t how = own_.below(4);
  tbcclResult_t result = tbcclInProgress;
  while (result == tbcclInProgress) {
    if (Clock::now() > deadline) failed(pending.exercise.text() + ": is never complete");
    if (how == 0) {
      int done = 0;
      result = tbcclTest(pending.request, &done);
      if (result == tbcclSuccess && done == 0) {
        result = tbcclInProgress;
        std::this_thread::yield();
      }
    } else {
      result = tbcclWait(pending.request, how == 1 ? 1 : -1);
    }
  }
  require(result, comm(pending.exercise.call().slot), pending.exercise.text());
}

void Rank::await_callbacks(Pending& pending) {
  const auto deadline = Clock::now() + kPatience;
  while (pending.callbacks.load() < pending.wanted_callbacks) {
    if (Clock::now() > deadline) failed(pending.exercise.text() + ": a callback is missing");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (pending.callbacks.load() != pending.wanted_callbacks) {
    failed(pending.exercise.text() + ": called back too often");
  }
  if (pending.bad_result.load() != tbcclSuccess) {
    failed(tbccl::formatted("{}: called back with result {}", pending.exercise.text(),
                            pending.bad_result.load()));
  }
}

void Rank::check_source(Pending& pending) {
  const Call& call = pending.exercise.call();
  if (!call.any_source || pending.exercise.role() == Role::kSender) return;
  if (pending.request == TBCCL_REQUEST_NULL) return;
  int source = -1;
  require(tbcclRequestSource(pending.request, &source), comm(call.slot),
          pending.exercise.text() + ", reading the source");
  if (source < 0 || source >= call.ranks)
    failed(tbccl::formatted("{}: came from {}", pending.exercise.text(), source));
  if (!taken_.emplace(call.tag, source).second) {
    failed(tbccl::formatted("{}: a second one from {}", pending.exercise.text(), source));
  }
  pending.exercise.came_from(source);
}

void Rank::check(Pending& pending) {
  check_source(pending);
  const std::string trouble = pending.exercise.check();
  if (!trouble.empty()) failed(trouble);
}

// A persistent request stays; others are freed, some before they are complete.
void Rank::complete(Pending& pending) {
  const bool detachable = pending.calls_back && !pending.exercise.call().any_source;
  bool persistent = false;
  for (const Queue& queue : persistent_) {
    for (const Owned& one : queue) persistent = persistent || one.get() == &pending;
  }
  if (!persistent && detachable && own_.chance(30)) {
    require(tbcclRequestFree(&pending.request), nullptr, "freeing a request");
  } else {
    wait(pending);
  }
  await_callbacks(pending);
  check(pending);
  pending.in_progress = false;
  if (!persistent && pending.request != TBCCL_REQUEST_NULL) {
    require(tbcclRequestFree(&pending.request), nullptr, "freeing a request");
  }
}

// All at once, one by one in any order, or as they become complete.
void Rank::drain() {
  std::vector<tbcclRequest_t> requests;
  for (const Owned& one : outstanding_) requests.push_back(one->request);
  const int count = static_cast<int>(requests.size());
  const uint64_t how = own_.below(4);
  if (how == 0 && count > 0) require(tbcclWaitAll(count, requests.data(), -1), comm(0), "wait all");
  while (how == 1 && !outstanding_.empty()) {
    requests.clear();
    for (const Owned& one : outstanding_) requests.push_back(one->request);
    int index = -1;
    require(tbcclWaitAny(static_cast<int>(requests.size()), requests.data(), &index, -1), comm(0),
            "wait any");
    if (index < 0 || index >= static_cast<int>(requests.size())) failed("wait any: a wrong index");
    complete(*outstanding_[static_cast<size_t>(index)]);
    outstanding_.erase(outstanding_.begin() + index);
  }
  std::vector<Owned> rest(std::make_move_iterator(outstanding_.begin()),
                          std::make_move_iterator(outstanding_.end()));
  outstanding_.clear();
  if (how == 2) own_.shuffle(rest);
  for (Owned& one : rest) complete(*one);
}

void Rank::complete_slot(int slot) {
  for (auto at = outstanding_.begin(); at != outstanding_.end();) {
    if ((*at)->exercise.call().slot == slot) {
      complete(**at);
      at = outstanding_.erase(at);
    } else {
      ++at;
    }
  }
  for (size_t number = 0; number < persistent_.size(); ++number) {
    const Queue& queue = persistent_[number];
    if (!queue.empty() && queue.front()->exercise.call().slot == slot) free_persistent(number);
  }
}

void Rank::split(const Step& step) {
  comms_.resize(static_cast<size_t>(plan_.slots()), nullptr);
  const int rank = plan_.slot(step.slot).rank_of(rank_);
  if (rank < 0) return;
  const int color = step.colors[static_cast<size_t>(rank)];
  tbcclComm_t made = nullptr;
  const tbcclResult_t result =
      step.duplicate ? tbcclCommDup(comm(step.slot), &made)
                     : tbcclCommSplit(comm(step.slot), color, step.keys[static_cast<size_t>(rank)],
                                      &made, nullptr);
  require(result, comm(step.slot), tbccl::formatted("splitting communicator {}", step.slot));
  if ((made != nullptr) != (color >= 0)) failed("a communicator of no colour, or none of one");
  if (color < 0) return;
  const int slot = step.made[static_cast<size_t>(color)];
  int size = 0, own = -1;
  require(tbcclCommCount(made, &size), made, "reading the size");
  require(tbcclCommUserRank(made, &own), made, "reading the rank");
  if (size != plan_.slot(slot).size() || own != plan_.slot(slot).rank_of(rank_)) {
    failed(tbccl::formatted("communicator {} has rank {} of {} here", slot, own, size));
  }
  comms_[static_cast<size_t>(slot)] = made;
}

void Rank::destroy(int slot) {
  tbcclComm_t& handle = comms_[static_cast<size_t>(slot)];
  if (handle == nullptr) return;
  complete_slot(slot);
  if (own_.chance(30)) require(tbcclCommFinalize(handle), handle, "finalizing");
  require(tbcclCommDestroy(handle), nullptr, tbccl::formatted("destroying communicator {}", slot));
  handle = nullptr;
}

void Rank::require(tbcclResult_t result, tbcclComm_t comm, const std::string& what) {
  if (result == tbcclSuccess) return;
  failed(
      tbccl::formatted("{}: {}: {}", what, tbcclGetErrorString(result), tbcclGetLastError(comm)));
}

}  // namespace soak
