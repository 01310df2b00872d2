#include "comm/family.h"

#include <algorithm>

#include "base/formatted.h"
#include "base/log.h"
#include "comm/communicator.h"

namespace tbccl::comm {
namespace {

Communicator* find(const std::vector<Communicator*>& all, uint32_t comm) {
  const auto at =
      std::find_if(all.begin(), all.end(), [comm](const auto* c) { return c->number() == comm; });
  return at == all.end() ? nullptr : *at;
}

}  // namespace

Family::~Family() {
  {
    // From here on events find nothing to act on; the control thread may be inside one now.
    std::lock_guard<std::mutex> hold(lock_);
    serving_ = false;
  }
  // The control plane first: afterwards no event can come from its thread. The lane's own events
  // end with the lane, which uses nothing of this object but rates_ any more.
  control_.reset();
  lane_.reset();
}

uint32_t Family::number_of(uint32_t turn, int first_member, int size) {
  const uint64_t number = uint64_t{kFirstCommunicator} + 1 +
                          uint64_t{turn} * static_cast<uint64_t>(size) +
                          static_cast<uint64_t>(first_member);
  return number < UINT32_MAX ? static_cast<uint32_t>(number) : 0;
}

Communicator* Family::known(uint32_t comm) const { return find(known_, comm); }
Communicator* Family::on_lane(uint32_t comm) const { return find(on_lane_, comm); }

void Family::enter(Communicator* communicator, const engine::ChannelOptions& channel) {
  lane_->with_links([&](link::Links&) { on_lane_.push_back(communicator); });
  communicator->channel_ = lane_->add_channel(channel);
  open_.fetch_add(1);
  std::lock_guard<std::mutex> hold(lock_);
  known_.push_back(communicator);
}

void Family::remove(Communicator* communicator) {
  {
    std::lock_guard<std::mutex> hold(lock_);
    std::erase(known_, communicator);
  }
  if (communicator->channel_ == nullptr) return;
  lane_->remove_channel(communicator->channel_);
  lane_->with_links([&](link::Links&) { std::erase(on_lane_, communicator); });
}

bool Family::drain_links(uint64_t deadline_ns) {
  return lane_->drive(
      [this](link::Links& links) {
        for (int peer = 0; peer < size_; ++peer) {
          if (peer != rank_ && !links.idle(peer)) return false;
        }
        return true;
      },
      deadline_ns);
}

// Peers that are still busy go on without this rank; nothing is gained by waiting for them.
void Family::goodbye() {
  if (control_ == nullptr) return;
  if (Status status = control_->goodbye(now_ns()); !status.ok() && status.code() != tbcclTimeout) {
    log::info("rank {}: goodbye: {}", rank_, status.text());
  }
}

void Family::look_at_rates() {
  lane_->with_links([this](link::Links& links) { carried(links.counters()); });
}

void Family::ask(uint32_t comm, uint64_t timeout_ns, Answered done) {
  control_->query_records(
      comm, timeout_ns,
      [this, comm, done = std::move(done)](std::vector<bootstrap::PeerRecord> records) {
        std::lock_guard<std::mutex> hold(lock_);
        Communicator* const communicator = known(comm);
        if (communicator != nullptr) done(*communicator, communicator->renumbered(records));
      });
}

bool Family::finished(int rank) const {
  return std::find(finished_.begin(), finished_.end(), rank) != finished_.end();
}

// ---- events of the control plane ------------------------------------------------------------

void Family::peer_gone(int rank, const Status& cause) {
  std::lock_guard<std::mutex> hold(lock_);
  if (early_failure_.ok()) early_failure_ = cause;
  if (serving_) lane_->peer_gone(rank, cause);
}

void Family::peer_finished(int rank) {
  std::lock_guard<std::mutex> hold(lock_);
  finished_.push_back(rank);
  if (serving_) lane_->peer_finished(rank);
}

void Family::peer_failed(int rank, uint32_t comm, const Status& cause) {
  std::lock_guard<std::mutex> hold(lock_);
  Communicator* const communicator = known(comm);
  if (communicator == nullptr && comm != kFirstCommunicator) return;
  // What breaks a call everywhere keeps its code; a time-out is the other rank's own.
  const bool same_everywhere = cause.code() == tbcclAborted || cause.code() == tbcclInvalidUsage ||
                               cause.code() == tbcclRemoteError;
  const int member = communicator == nullptr ? rank : communicator->member_of(rank);
  if (member < 0) return;
  const Status told(same_everywhere ? cause.code() : tbcclRemoteError,
                    formatted("rank {} broke {}: {}", member,
                              communicator == nullptr ? "the communicator" : communicator->title(),
                              cause.text()));
  if (comm == kFirstCommunicator && early_failure_.ok()) early_failure_ = told;
  if (serving_ && communicator != nullptr) communicator->told(told);
}

bootstrap::PeerRecord Family::record(uint32_t comm) {
  bootstrap::PeerRecord answer;
  answer.rank = rank_;
  answer.answered = true;
  std::lock_guard<std::mutex> hold(lock_);
  Communicator* const communicator = known(comm);
  if (!serving_ || communicator == nullptr) {
    // While the first one is being made this rank is in no call of it yet.
    if (met_ || comm != kFirstCommunicator) answer.number = kLeft;
    return answer;
  }
  if (communicator->left_.load() && communicator->state().ok()) {
    answer.number = kLeft;
    return answer;
  }
  const engine::CallRecord mine = lane_->record(communicator->channel_);
  answer.number = mine.number;
  answer.fingerprint = mine.fingerprint;
  answer.text = mine.text;
  answer.waiting_for = mine.waiting_for;
  return answer;
}

// ---- events of the lane ---------------------------------------------------------------------

void Family::broken(uint32_t comm, const Status& cause) {
  if (control_ != nullptr) control_->announce_failure(comm, cause);
}

bool Family::mismatched(uint32_t comm, const engine::CallRecord& mine, int rank,
                        const Status& cause) {
  Communicator* const communicator = on_lane(comm);
  if (control_ == nullptr || communicator == nullptr) return false;
  communicator->mismatched(mine, rank, cause);
  return true;
}

void Family::stalled(uint32_t comm, const engine::CallRecord& mine) {
  Communicator* const communicator = on_lane(comm);
  if (control_ != nullptr && communicator != nullptr) communicator->stalled(mine);
}

bool Family::others_doing(uint32_t comm, const engine::CallRecord& mine, std::string* text) {
  text->clear();
  Communicator* const communicator = on_lane(comm);
  if (control_ == nullptr || communicator == nullptr) return true;
  return communicator->others_doing(mine, text);
}

void Family::carried(const std::vector<link::TrunkCounters>& trunks) {
  if (rates_ != nullptr) rates_->look(trunks);
}

}  // namespace tbccl::comm
