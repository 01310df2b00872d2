// A communicator that was initialised, and all that have been split from it: on each rank they
// share one control plane (bootstrap/), one lane with its links and threads (engine/), and what is
// told about other ranks.
//
// Owners.   Every communicator holds its family; the last one to go, whichever that is, takes it
//   along. A parent may be destroyed before its children.
// Failures. Each communicator is broken by itself: an abort, a mismatch, a time-out of one says
//   nothing about the others. What they share breaks those that need it: a rank that is gone, or
//   cannot be reached any more, breaks every communicator it is a member of.
// Goodbyes. The last communicator that leaves says goodbye to all ranks of the family. That a rank
//   has left a single communicator is in its answer to a query for records (kLeft).
// Numbers.  A communicator's number is in the header of all its messages and in what is told about
//   it. It is its first rank's choice and never used again, so that no two in a family are equal.
//
// Threads. Two registers of the communicators, because the control thread waits for the holder of
//   the lane's token (for a call record), which therefore must never wait for it: `known_`, under
//   lock_, is the control thread's, `on_lane_` belongs to the token.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/control.h"
#include "comm/rates.h"
#include "engine/engine.h"

namespace tbccl::comm {

class Communicator;

// The number of the communicator that a family begins with.
inline constexpr uint32_t kFirstCommunicator = 1;
// In place of an operation's number in a call record: this rank has left the communicator.
inline constexpr uint64_t kLeft = UINT64_MAX;

class Family final : public bootstrap::ControlEvents, public engine::LaneEvents {
 public:
  // More at a time are refused: the links remember no more (kMaxComms in link/).
  static constexpr int kMost = 4000;

  Family(int rank, int size) : rank_(rank), size_(size) {}
  ~Family() override;

  int rank() const { return rank_; }  // among the links
  int size() const { return size_; }
  engine::Lane& lane() { return *lane_; }
  bootstrap::Control* control() { return control_.get(); }  // none in a group of one

  // For a communicator whose first member is this rank: never the same twice.
  uint32_t next_turn() { return next_turn_.fetch_add(1); }
  // Its number; 0: there are no more.
  static uint32_t number_of(uint32_t turn, int first_member, int size);

  // Events find the communicator from now on.
  void enter(Communicator* communicator, const engine::ChannelOptions& channel);
  int members() const { return open_.load(); }
  // It takes no more calls; true: nobody of the family is left on this rank.
  bool leave() { return open_.fetch_sub(1) == 1; }
  // Events do not find it any more, and its requests are gone.
  void remove(Communicator* communicator);

  // Waits until everything sent to anybody is acknowledged.
  bool drain_links(uint64_t deadline_ns);
  void goodbye();
  void look_at_rates();

  // Asks the other ranks what they do in a communicator; `done` runs on the control thread, with
  // lock_ held, unless the communicator has gone meanwhile.
  using Answered = std::function<void(Communicator&, const std::vector<bootstrap::PeerRecord>&)>;
  void ask(uint32_t comm, uint64_t timeout_ns, Answered done);

  // With lock_ held, as in the callbacks of ask(): it said goodbye.
  bool finished(int rank) const;

  // --- bootstrap::ControlEvents ---
  void peer_gone(int rank, const Status& cause) override;
  void peer_finished(int rank) override;
  void peer_failed(int rank, uint32_t comm, const Status& cause) override;
  bootstrap::PeerRecord record(uint32_t comm) override;

  // --- engine::LaneEvents ---
  void broken(uint32_t comm, const Status& cause) override;
  bool mismatched(uint32_t comm, const engine::CallRecord& mine, int rank,
                  const Status& cause) override;
  void stalled(uint32_t comm, const engine::CallRecord& record) override;
  bool others_doing(uint32_t comm, const engine::CallRecord& mine, std::string* text) override;
  void carried(const std::vector<link::TrunkCounters>& trunks) override;

 private:
  friend class BringUp;
  Communicator* known(uint32_t comm) const;    // lock_ is held
  Communicator* on_lane(uint32_t comm) const;  // the token is

  const int rank_;
  const int size_;
  std::atomic<uint32_t> next_turn_{0};
  std::atomic<int> open_{0};
  std::unique_ptr<bootstrap::Control> control_;
  std::unique_ptr<engine::Lane> lane_;
  std::unique_ptr<RateWatch> rates_;    // the token's
  std::vector<Communicator*> on_lane_;  // the token's

  std::mutex lock_;
  bool serving_ = false;  // lane_ may be used by event handlers; false again at the end
  bool met_ = false;      // the first communicator has been among known_
  Status early_failure_;  // what the control thread said before
  std::vector<Communicator*> known_;
  std::vector<int> finished_;  // ranks that have said goodbye
};

}  // namespace tbccl::comm
