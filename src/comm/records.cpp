// What other ranks are doing: asked where calls stall, differ or run out of time.
#include <fmt/format.h>

#include <algorithm>

#include "base/formatted.h"
#include "base/log.h"
#include "comm/communicator.h"

namespace tbccl::comm {
namespace {

constexpr uint64_t kTellAfter = 10'000'000'000;
// Stalled calls are reported every second; a longer silence means that this one went on.
constexpr uint64_t kStallGap = 5'000'000'000;
// What is known of the other ranks is as good as new for so long, and asked for in so much time.
constexpr uint64_t kFresh = 1'500'000'000;
constexpr uint64_t kAskFor = 700'000'000;
constexpr size_t kRanksTold = 16;

}  // namespace

std::string list_ranks(const std::vector<int>& ranks) {
  return formatted("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

int Communicator::member_of(int family_rank) const {
  const auto at = std::find(members_.begin(), members_.end(), family_rank);
  return at == members_.end() ? -1 : static_cast<int>(at - members_.begin());
}

std::vector<bootstrap::PeerRecord> Communicator::renumbered(
    const std::vector<bootstrap::PeerRecord>& records) const {
  std::vector<bootstrap::PeerRecord> mine;
  for (const bootstrap::PeerRecord& record : records) {
    const int rank = member_of(record.rank);
    if (rank < 0) continue;
    mine.push_back(record);
    mine.back().rank = rank;
  }
  return mine;
}

// Whoever said goodbye, or is not in this communicator any more, has got and sent everything it
// ever will.
bool Communicator::has_left(int rank, const std::vector<bootstrap::PeerRecord>& others) const {
  return family_->finished(members_[static_cast<size_t>(rank)]) ||
         std::any_of(others.begin(), others.end(), [rank](const auto& other) {
           return other.rank == rank && other.answered && other.number == kLeft;
         });
}

std::vector<int> Communicator::present(const std::vector<bootstrap::PeerRecord>& others) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !has_left(rank, others)) ranks.push_back(rank);
  }
  return ranks;
}

void Communicator::mismatched(const engine::CallRecord& mine, int rank, const Status& cause) {
  if (disagreeing_.exchange(true)) return;
  family_->ask(number_, 1'000'000'000, [mine, rank, cause](Communicator& c, const auto& others) {
    Status found = c.compare(mine, others);
    for (const bootstrap::PeerRecord& other : others) {
      if (!found.ok() || other.rank != rank || other.text.empty()) continue;
      found =
          Status(cause.code(), formatted("{}; rank {} is in {}", cause.text(), rank, other.text));
    }
    c.lane().fail(c.channel_, found.ok() ? cause : found);
  });
}

void Communicator::stalled(const engine::CallRecord& mine) {
  {
    std::lock_guard<std::mutex> hold(doing_lock_);
    stalled_.push_back(mine);
  }
  // Several requests stall in the same round: one question serves them all.
  if (comparing_.exchange(true)) return;
  family_->ask(number_, 1'000'000'000,
               [](Communicator& c, const auto& others) { c.compare_stalled(others); });
}

void Communicator::compare_stalled(const std::vector<bootstrap::PeerRecord>& others) {
  std::vector<engine::CallRecord> stalled;
  {
    std::lock_guard<std::mutex> hold(doing_lock_);
    stalled.swap(stalled_);
  }
  comparing_.store(false);
  for (const engine::CallRecord& mine : stalled) {
    const Status found = compare(mine, others);
    if (!found.ok()) return lane().fail(channel_, found);
  }
  // The oldest is told of.
  if (!stalled.empty()) tell_stall(stalled.front(), note_doing(stalled.front(), others));
}

bool Communicator::others_doing(const engine::CallRecord& mine, std::string* text) {
  {
    std::lock_guard<std::mutex> hold(doing_lock_);
    const bool same = doing_.number == mine.number && doing_.mine == mine.text;
    if (same) *text = doing_.text;
    if (same && now_ns() - doing_.at < kFresh) return true;
  }
  if (asking_.exchange(true)) return false;
  family_->ask(number_, kAskFor, [mine](Communicator& c, const auto& others) {
    c.note_doing(mine, others);
    if (const Status found = c.compare(mine, others); !found.ok()) {
      c.lane().fail(c.channel_, found);
    }
    c.asking_.store(false);
  });
  return false;
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
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kRanksTold); ++i) {
    const auto of = std::find_if(others.begin(), others.end(),
                                 [&](const auto& other) { return other.rank == order[i]; });
    text += text.empty() ? "" : "; ";
    if (has_left(order[i], others)) {
      text += formatted("rank {} has left", order[i]);
    } else if (of == others.end() || !of->answered) {
      text += formatted("rank {} does not answer", order[i]);
    } else if (of->text.empty()) {
      text += formatted("rank {} is in no call", order[i]);
    } else {
      text += formatted("rank {} is in {}", order[i], of->text);
      if (of->number > 0) text += formatted(", operation {}", of->number);
      if (!of->waiting_for.empty()) {
        text += formatted(", and waits for {}", list_ranks(of->waiting_for));
      }
    }
  }
  if (order.size() > kRanksTold) text += formatted("; and {} more", order.size() - kRanksTold);
  std::lock_guard<std::mutex> hold(doing_lock_);
  doing_ = Doing{mine.number, mine.text, text, now_ns()};
  return text;
}

void Communicator::tell_stall(const engine::CallRecord& mine, const std::string& doing) {
  const uint64_t now = now_ns();
  if (stall_.number != mine.number || stall_.text != mine.text || now - stall_.seen > kStallGap) {
    stall_ = Stall{mine.number, mine.text, now, now, false};
  }
  stall_.seen = now;
  if (stall_.told || now - stall_.since < kTellAfter) return;
  stall_.told = true;
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
            formatted("ranks disagree about operation {}: rank {} called {}, rank {} called {}; "
                      "every rank must issue the same operations in the same order with the "
                      "same arguments",
                      mine.number, rank_, mine.text, other.rank, other.text)};
  }
  std::vector<int> left;
  for (int rank : mine.waiting_for) {
    if (has_left(rank, others)) left.push_back(rank);
  }
  if (left.empty()) return {};
  // A message (it has no number) that waits for several ranks is a receive from any of them: one
  // that has not left may still send it.
  if (mine.number == 0 && left.size() < mine.waiting_for.size()) return {};
  const std::string who = list_ranks(left);
  return {tbcclRemoteError,
          formatted("rank {} waits for {} in {}, and {} left (finalized or destroyed {}) "
                    "without making this call",
                    rank_, who, mine.text, who, title())};
}

}  // namespace tbccl::comm
