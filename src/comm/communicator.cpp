#include "comm/communicator.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace tbccl::comm {
namespace {

constexpr uint64_t kTellAfter = 10'000'000'000;
// Stalled calls are reported every second; a longer silence means that this one went on.
constexpr uint64_t kStallGap = 5'000'000'000;
// What is known of the other ranks is as good as new for so long, and asked for in so much time.
constexpr uint64_t kFresh = 1'500'000'000;
constexpr uint64_t kAskFor = 700'000'000;
constexpr size_t kRanksTold = 16;

// "rank 1", "ranks 1, 2".
std::string list_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

Communicator::Communicator(int rank, int size, const Settings& settings)
    : rank_(rank), size_(size), settings_(settings) {}

Communicator::~Communicator() {
  {
    // From here on events find nothing to act on; the control thread may be inside one now.
    std::lock_guard<std::mutex> hold(early_lock_);
    serving_ = false;
  }
  if (lane_ != nullptr && channel_ != nullptr) lane_->remove_channel(channel_);
  // The control plane first: afterwards no event can come from its thread. The lane's own events
  // end with the lane, which uses nothing of this object but control_, in events that need a
  // channel, and rates_.
  control_.reset();
  lane_.reset();
}

Status Communicator::usable() const {
  if (finalized_.load(std::memory_order_acquire)) {
    return {tbcclInvalidUsage,
            fmt::format("rank {} of {} has finalized this communicator; only tbcclCommDestroy is "
                        "left",
                        rank_, size_)};
  }
  return state();
}

Status Communicator::state() const { return lane_->state(channel_); }

Status Communicator::finalize() {
  if (finalized_.exchange(true)) return {};
  if (Status status = state(); !status.ok()) return status;
  const uint64_t limit = settings_.timeout_ns == 0 ? kNever : now_ns() + settings_.timeout_ns;
  if (Status status = lane_->drain(channel_, limit); !status.ok()) return status;
  return control_ == nullptr ? Status() : control_->goodbye(limit);
}

void Communicator::leave() {
  finalized_.store(true);
  lane_->with_links([this](link::Links& links) { carried(links.counters()); });
  if (!state().ok()) return;  // peers have been told why
  const uint64_t limit = now_ns() + settings_.connect_timeout_ns;
  if (Status status = lane_->drain(channel_, limit); !status.ok()) {
    log::warn("rank {}: leaving with unfinished work: {}", rank_, status.text());
    // Nobody else would end these operations before their own deadlines, and they may have none.
    lane_->fail(channel_,
                Status(tbcclInvalidUsage,
                       fmt::format("rank {} destroyed the communicator while operations were "
                                   "outstanding: {}",
                                   rank_, status.text())));
    return;
  }
  // Peers that are still busy go on without this rank; nothing is gained by waiting for them.
  if (control_ != nullptr) {
    if (Status status = control_->goodbye(now_ns());
        !status.ok() && status.code() != tbcclTimeout) {
      log::info("rank {}: goodbye: {}", rank_, status.text());
    }
  }
}

void Communicator::abort() {
  end_calls(Status(tbcclAborted,
                   fmt::format("rank {} aborted the communicator (tbcclCommAbort)", rank_)));
}

void Communicator::evict() {
  end_calls(Status(tbcclInvalidUsage,
                   fmt::format("the communicator was destroyed while rank {}'s thread was inside a "
                               "call; let every call return before tbcclCommDestroy",
                               rank_)));
}

void Communicator::end_calls(const Status& cause) {
  lane_->fail(channel_, cause);
  if (control_ == nullptr) return;
  // Here, not when the lane gets to it: the process may end before that.
  const Status first = state();
  control_->announce_failure(kFirstCommunicator, first);
  control_->interrupt(first);
}

// ---- events of the control plane ------------------------------------------------------------

void Communicator::peer_gone(int rank, const Status& cause) {
  std::lock_guard<std::mutex> hold(early_lock_);
  if (early_failure_.ok()) early_failure_ = cause;
  if (serving_) lane_->peer_gone(rank, cause);
}

void Communicator::peer_finished(int rank) {
  std::lock_guard<std::mutex> hold(early_lock_);
  finished_.push_back(rank);
  if (serving_) lane_->peer_finished(rank);
}

void Communicator::peer_failed(int rank, uint32_t comm, const Status& cause) {
  std::lock_guard<std::mutex> hold(early_lock_);
  if (comm != kFirstCommunicator) return;
  // What breaks a call everywhere keeps its code; a time-out is the other rank's own.
  const bool same_everywhere = cause.code() == tbcclAborted || cause.code() == tbcclInvalidUsage ||
                               cause.code() == tbcclRemoteError;
  const Status told(same_everywhere ? cause.code() : tbcclRemoteError,
                    fmt::format("rank {} broke the communicator: {}", rank, cause.text()));
  if (early_failure_.ok()) early_failure_ = told;
  if (!serving_) return;
  lane_->fail(channel_, told);
  control_->interrupt(told);  // that rank will not say goodbye
}

bootstrap::PeerRecord Communicator::record(uint32_t comm) {
  bootstrap::PeerRecord answer;
  answer.rank = rank_;
  answer.answered = true;
  std::lock_guard<std::mutex> hold(early_lock_);
  if (!serving_ || comm != kFirstCommunicator) return answer;
  const engine::CallRecord mine = lane_->record(channel_);
  answer.number = mine.number;
  answer.fingerprint = mine.fingerprint;
  answer.text = mine.text;
  answer.waiting_for = mine.waiting_for;
  return answer;
}

// ---- events of the lane ---------------------------------------------------------------------

void Communicator::broken(uint32_t comm, const Status& cause) {
  if (control_ != nullptr) control_->announce_failure(comm, cause);
}

void Communicator::fail_if_serving(const Status& cause) {
  std::lock_guard<std::mutex> hold(early_lock_);
  if (serving_) lane_->fail(channel_, cause);
}

bool Communicator::mismatched(uint32_t comm, const engine::CallRecord& mine, int rank,
                              const Status& cause) {
  if (control_ == nullptr) return false;
  if (disagreeing_.exchange(true)) return true;
  control_->query_records(
      comm, 1'000'000'000, [this, mine, rank, cause](std::vector<bootstrap::PeerRecord> others) {
        Status found = compare(mine, others);
        for (const bootstrap::PeerRecord& other : others) {
          if (!found.ok() || other.rank != rank || other.text.empty()) continue;
          found = Status(cause.code(),
                         fmt::format("{}; rank {} is in {}", cause.text(), rank, other.text));
        }
        fail_if_serving(found.ok() ? cause : found);
      });
  return true;
}

void Communicator::stalled(uint32_t comm, const engine::CallRecord& mine) {
  if (control_ == nullptr) return;
  {
    std::lock_guard<std::mutex> hold(doing_lock_);
    stalled_.push_back(mine);
  }
  // Several requests stall in the same round: one question serves them all.
  if (comparing_.exchange(true)) return;
  control_->query_records(comm, 1'000'000'000, [this](std::vector<bootstrap::PeerRecord> others) {
    std::vector<engine::CallRecord> stalled;
    {
      std::lock_guard<std::mutex> hold(doing_lock_);
      stalled.swap(stalled_);
    }
    comparing_.store(false);
    compare_stalled(stalled, others);
  });
}

void Communicator::compare_stalled(const std::vector<engine::CallRecord>& stalled,
                                   const std::vector<bootstrap::PeerRecord>& others) {
  for (const engine::CallRecord& mine : stalled) {
    if (const Status found = compare(mine, others); !found.ok()) return fail_if_serving(found);
  }
  // The oldest is told of.
  if (!stalled.empty()) tell_stall(stalled.front(), note_doing(stalled.front(), others));
}

bool Communicator::others_doing(uint32_t comm, const engine::CallRecord& mine, std::string* text) {
  text->clear();
  if (control_ == nullptr) return true;
  {
    std::lock_guard<std::mutex> hold(doing_lock_);
    const bool same = doing_.number == mine.number && doing_.mine == mine.text;
    if (same) *text = doing_.text;
    if (same && now_ns() - doing_.at < kFresh) return true;
  }
  if (asking_.exchange(true)) return false;
  control_->query_records(comm, kAskFor, [this, mine](std::vector<bootstrap::PeerRecord> others) {
    note_doing(mine, others);
    if (const Status found = compare(mine, others); !found.ok()) {
      fail_if_serving(found);
    }
    asking_.store(false);
  });
  return false;
}

void Communicator::carried(const std::vector<link::TrunkCounters>& trunks) {
  if (rates_ != nullptr) rates_->look(trunks);
}

std::string Communicator::note_doing(const engine::CallRecord& mine,
                                     const std::vector<bootstrap::PeerRecord>& others) {
  // Whom this rank waits for comes first.
  std::vector<int> order = mine.waiting_for;
  for (int rank = 0; rank < size_; ++rank) {
    const bool listed = std::find(order.begin(), order.end(), rank) != order.end();
    if (!listed) order.push_back(rank);
  }
  std::erase(order, rank_);
  std::vector<int> finished;
  {
    std::lock_guard<std::mutex> hold(early_lock_);
    finished = finished_;
  }
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kRanksTold); ++i) {
    const auto of = std::find_if(others.begin(), others.end(),
                                 [&](const auto& other) { return other.rank == order[i]; });
    text += text.empty() ? "" : "; ";
    if (std::find(finished.begin(), finished.end(), order[i]) != finished.end()) {
      text += fmt::format("rank {} has left", order[i]);
    } else if (of == others.end() || !of->answered) {
      text += fmt::format("rank {} does not answer", order[i]);
    } else if (of->text.empty()) {
      text += fmt::format("rank {} is in no call", order[i]);
    } else {
      text += fmt::format("rank {} is in {}", order[i], of->text);
      if (of->number > 0) text += fmt::format(", operation {}", of->number);
      if (!of->waiting_for.empty()) {
        text += fmt::format(", and waits for {}", list_ranks(of->waiting_for));
      }
    }
  }
  if (order.size() > kRanksTold) text += fmt::format("; and {} more", order.size() - kRanksTold);
  std::lock_guard<std::mutex> hold(doing_lock_);
  doing_ = Doing{mine.number, mine.text, text, now_ns()};
  return text;
}

void Communicator::tell_stall(const engine::CallRecord& mine, const std::string& doing) {
  const uint64_t now = now_ns();
  {
    std::lock_guard<std::mutex> hold(early_lock_);
    if (stall_.number != mine.number || stall_.text != mine.text || now - stall_.seen > kStallGap) {
      stall_ = Stall{mine.number, mine.text, now, now, false};
    }
    stall_.seen = now;
    if (stall_.told || now - stall_.since < kTellAfter) return;
    stall_.told = true;
  }
  log::warn("rank {} has waited {} s for {} in {}; {}", rank_, kTellAfter / 1'000'000'000,
            mine.waiting_for.empty() ? "its own step" : list_ranks(mine.waiting_for), mine.text,
            doing);
}

Status Communicator::compare(const engine::CallRecord& mine,
                             const std::vector<bootstrap::PeerRecord>& others) {
  // A collective's number has one meaning: two ranks whose calls of the same number have
  // different arguments will never finish it.
  for (const bootstrap::PeerRecord& other : others) {
    if (!other.answered || other.rank == rank_ || mine.number == 0 || other.number != mine.number ||
        other.fingerprint == mine.fingerprint) {
      continue;
    }
    return {tbcclInvalidUsage,
            fmt::format("ranks disagree about operation {}: rank {} called {}, rank {} called {}; "
                        "every rank must issue the same operations in the same order with the "
                        "same arguments",
                        mine.number, rank_, mine.text, other.rank, other.text)};
  }
  // Whoever said goodbye has got and sent everything it ever will.
  std::lock_guard<std::mutex> hold(early_lock_);
  std::vector<int> left;
  for (int rank : mine.waiting_for) {
    if (std::find(finished_.begin(), finished_.end(), rank) != finished_.end()) {
      left.push_back(rank);
    }
  }
  if (left.empty()) return {};
  // A message (it has no number) that waits for several ranks is a receive from any of them: one
  // that has not left may still send it.
  if (mine.number == 0 && left.size() < mine.waiting_for.size()) return {};
  const std::string who = list_ranks(left);
  return {tbcclRemoteError,
          fmt::format("rank {} waits for {} in {}, and {} left (finalized or destroyed the "
                      "communicator) without making this call",
                      rank_, who, mine.text, who)};
}

}  // namespace tbccl::comm
