// A communicator: one rank's membership of a group. It owns, and ties together, the control plane
// (bootstrap/), the lane that carries its operations out (engine/), the basis and the plans.
//
// Threads.  prepare() and everything below it may be called from any thread. The two event
//   interfaces are called by the control thread and by whoever progresses the lane.
// Life.     set up -> usable -> (broken | finalized) -> destroyed. The first error breaks it, is
//   told to the other ranks, and is what every later call returns. Destroying waits until all
//   threads have left (Entry counts them).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/control.h"
#include "comm/operators.h"
#include "comm/plan_cache.h"
#include "comm/rates.h"
#include "engine/engine.h"
#include "schedule/basis.h"

namespace tbccl::comm {

// One operation as a caller asks for it; values of tbcclCall_t that are not about the request.
struct Operation {
  tbcclOperation_t operation = tbcclOpAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  uint64_t count = 0;
  tbcclDataType_t type = tbcclInt8;
  tbcclRedOp_t op = tbcclSum;
  int root = 0;  // broadcast: root; send, receive: peer
  int tag = 0;
};

// The last short all-reduce, made ready: calls that differ in their buffers alone need no planning.
class Memo {
 public:
  bool recall(const Operation& operation, engine::Call* call);
  void keep(const Operation& operation, uint64_t bytes, const engine::Call& call);

 private:
  std::mutex lock_;
  Operation operation_;
  bool in_place_ = false;
  uint64_t bytes_ = 0;
  engine::Call call_;  // no plan: there is none yet
};

class Communicator final : public bootstrap::ControlEvents, public engine::LaneEvents {
 public:
  // Collective; see bring_up.cpp. On an error nothing is left behind.
  static Status create(int rank, int size, const bootstrap::MeetingPoint& where,
                       const Settings& settings, std::unique_ptr<Communicator>* communicator);
  ~Communicator() override;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Settings& settings() const { return settings_; }
  Operators& operators() { return operators_; }
  engine::Lane& lane() { return *lane_; }
  engine::Channel* channel() { return channel_; }

  // Checks arguments and makes the engine's call; InvalidArgument has no effect.
  Status prepare(const Operation& operation, engine::Call* call);

  // Ok, the first error that broke it, or InvalidUsage after finalize.
  Status usable() const;
  Status state() const;
  Status finalize();
  void abort();
  // While it is being destroyed: calls that threads are still inside of fail.
  void evict();
  // Waits for everything outstanding and says goodbye without waiting for the others'. What is
  // not complete after the connect time-out fails.
  void leave();

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
  Communicator(int rank, int size, const Settings& settings);
  Status prepare_collective(const Operation& operation, engine::Call* call);
  Status prepare_message(const Operation& operation, engine::Call* call);
  // The error that the records show, if any.
  Status compare(const engine::CallRecord& mine, const std::vector<bootstrap::PeerRecord>& others);
  // Breaks it with `cause`, and ends every call that waits.
  void end_calls(const Status& cause);
  void fail_if_serving(const Status& cause);
  void compare_stalled(const std::vector<engine::CallRecord>& stalled,
                       const std::vector<bootstrap::PeerRecord>& others);
  // Warns, once a call, when it has stalled for long: what it waits for, what the others do.
  void tell_stall(const engine::CallRecord& mine, const std::string& doing);
  // Keeps, as text, what each other rank was doing; also the answer.
  std::string note_doing(const engine::CallRecord& mine,
                         const std::vector<bootstrap::PeerRecord>& others);

  const int rank_;
  const int size_;
  const Settings settings_;
  schedule::Basis basis_;
  uint64_t basis_hash_ = 0;
  Operators operators_;
  std::unique_ptr<RateWatch> rates_;  // the lane's holder's
  std::unique_ptr<PlanCache> plans_;
  Memo memo_;
  std::unique_ptr<bootstrap::Control> control_;  // none in a group of one
  std::unique_ptr<engine::Lane> lane_;
  engine::Channel* channel_ = nullptr;
  std::atomic<bool> finalized_{false};
  std::atomic<bool> comparing_{false};    // a query for call records is under way
  std::atomic<bool> asking_{false};       // likewise, for the text of a time-out
  std::atomic<bool> disagreeing_{false};  // likewise, after a mismatch: the channel will break

  // What the control thread says before there is a channel to break.
  std::mutex early_lock_;
  bool serving_ = false;  // lane_ and channel_ may be used by event handlers
  Status early_failure_;
  std::vector<int> finished_;  // ranks that have said goodbye

  // The call seen stalled last; under early_lock_.
  struct Stall {
    uint64_t number = 0;
    std::string text;
    uint64_t since = 0;
    uint64_t seen = 0;
    bool told = false;
  };
  Stall stall_;
  // What the lane's holder and the control thread tell each other. Never held while waiting for
  // anybody: the control thread waits for the holder with early_lock_ held.
  std::mutex doing_lock_;
  std::vector<engine::CallRecord> stalled_;  // to be compared with the others' when they answer
  // What the other ranks were doing when they were last asked, while this rank was in that call.
  struct Doing {
    uint64_t number = 0;
    std::string mine;
    std::string text;
    uint64_t at = 0;
  };
  Doing doing_;
};

// The number of the one communicator that a group of links carries from its start.
inline constexpr uint32_t kFirstCommunicator = 1;

}  // namespace tbccl::comm
