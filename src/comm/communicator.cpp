// The life of a communicator. What it makes of other ranks' call records is in records.cpp.
#include "comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "base/formatted.h"
#include "base/log.h"

namespace tbccl::comm {
namespace {

// How often it is asked whether the others have finalized, and for how long each time.
constexpr uint64_t kFirstPause = 500'000;
constexpr uint64_t kLastPause = 50'000'000;
constexpr uint64_t kAskEach = 1'000'000'000;

}  // namespace

Communicator::Communicator(std::shared_ptr<Family> family, uint32_t number, int rank,
                           std::vector<int> members, const Settings& settings)
    : family_(std::move(family)),
      number_(number),
      rank_(rank),
      size_(static_cast<int>(members.size())),
      members_(std::move(members)),
      settings_(settings) {}

Communicator::~Communicator() {
  family_->remove(this);
  if (channel_ != nullptr && counted_) family_->leave();
}

std::string Communicator::title() const {
  return number_ == kFirstCommunicator ? "the communicator" : "communicator " + name_;
}

Status Communicator::usable() const {
  if (finalized_.load(std::memory_order_acquire)) {
    return {tbcclInvalidUsage,
            formatted("rank {} of {} has finalized this communicator; only tbcclCommDestroy is "
                      "left",
                      rank_, size_)};
  }
  return state();
}

Status Communicator::state() const { return family_->lane().state(channel_); }

Status Communicator::finalize() {
  if (finalized_.exchange(true)) return {};
  if (Status status = state(); !status.ok()) return status;
  const uint64_t limit = settings_.timeout_ns == 0 ? kNever : now_ns() + settings_.timeout_ns;
  if (single()) {
    if (Status status = lane().drain(channel_, limit); !status.ok()) return status;
    return family_->control() == nullptr ? Status() : family_->control()->goodbye(limit);
  }
  // Others of the family live on, and with them the links: nothing else is to be waited for.
  if (Status status = lane().quiesce(channel_, limit); !status.ok()) return status;
  left_.store(true);
  return others_left(limit);
}

// Until every other rank has finalized or destroyed it, too: asked again and again, because nothing
// else is said about a single communicator of a family.
Status Communicator::others_left(uint64_t limit) {
  if (size_ == 1) return {};
  struct Answer {
    std::mutex lock;
    std::condition_variable changed;
    bool here = false;
    std::vector<int> missing;
  };
  for (uint64_t pause = kFirstPause;; pause = std::min(2 * pause, kLastPause)) {
    const auto answer = std::make_shared<Answer>();
    family_->ask(number_, kAskEach, [answer](Communicator& c, const auto& others) {
      std::lock_guard<std::mutex> hold(answer->lock);
      answer->missing = c.present(others);
      answer->here = true;
      answer->changed.notify_one();
    });
    std::unique_lock<std::mutex> hold(answer->lock);
    answer->changed.wait(hold, [&] { return answer->here; });
    if (Status status = state(); !status.ok()) return status;
    if (answer->missing.empty()) return {};
    if (now_ns() >= limit) {
      return {tbcclTimeout,
              formatted("{} did not finalize {} in time", list_ranks(answer->missing), title())};
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
  }
}

void Communicator::leave() {
  finalized_.store(true);
  family_->look_at_rates();
  const bool alone = single();
  const bool intact = state().ok();  // if not, peers have been told why
  Status status;
  if (intact) {
    const uint64_t limit = now_ns() + settings_.connect_timeout_ns;
    status = alone ? lane().drain(channel_, limit) : lane().quiesce(channel_, limit);
  }
  if (!status.ok()) {
    log::warn("rank {}: leaving with unfinished work: {}", rank_, status.text());
    // Nobody else would end these operations before their own deadlines, and they may have none.
    lane().fail(channel_,
                Status(tbcclInvalidUsage,
                       formatted("rank {} destroyed {} while operations were outstanding: {}",
                                 rank_, title(), status.text())));
  }
  left_.store(true);
  counted_ = false;
  if (!family_->leave()) return;
  if (alone && (!intact || !status.ok())) return;
  // What others of the family have sent last may be on its way still.
  if (!alone && !family_->drain_links(now_ns() + settings_.connect_timeout_ns)) {
    log::warn("rank {}: leaving while peers have not acknowledged everything", family_->rank());
  }
  family_->goodbye();
}

void Communicator::abort() {
  end_calls(Status(tbcclAborted, formatted("rank {} aborted {} (tbcclCommAbort)", rank_, title())));
}

void Communicator::evict() {
  end_calls(
      Status(tbcclInvalidUsage, formatted("{} was destroyed while rank {}'s thread was inside a "
                                          "call; let every call return before tbcclCommDestroy",
                                          title(), rank_)));
}

void Communicator::end_calls(const Status& cause) {
  lane().fail(channel_, cause);
  bootstrap::Control* const control = family_->control();
  if (control == nullptr) return;
  // Here, not when the lane gets to it: the process may end before that.
  const Status first = state();
  control->announce_failure(number_, first);
  if (single()) control->interrupt(first);
}

void Communicator::told(const Status& cause) {
  lane().fail(channel_, cause);
  if (single()) family_->control()->interrupt(cause);  // that rank will not say goodbye
}

}  // namespace tbccl::comm
