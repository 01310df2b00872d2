// A communicator: one rank's membership of a group: its order of operations (a channel of the
// engine's), its basis, its plans. What it shares with those it was split from, or that were split
// from it, is its family's.
//
// Threads.  prepare() and everything below it may be called from any thread. What the family calls
//   when something happens comes from the control thread, or from whoever progresses the lane.
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
#include "comm/family.h"
#include "comm/operators.h"
#include "comm/plan_cache.h"
#include "engine/engine.h"
#include "schedule/basis.h"

namespace tbccl::comm {

// "rank 1", "ranks 1, 2".
std::string list_ranks(const std::vector<int>& ranks);

// One operation as a caller asks for it; values of tbcclCall_t that are not about the request.
struct Buffers;

struct Operation {
  tbcclOperation_t operation = tbcclOpAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  uint64_t count = 0;
  tbcclDataType_t type = tbcclInt8;
  tbcclRedOp_t op = tbcclSum;
  int root = 0;  // of rooted collectives; send, receive: peer; send-receive: whom to send to
  int tag = 0;
  uint64_t receive_count = 0;  // send-receive, and v-forms that receive one block
  int source = 0;              // send-receive: whom to receive from
  // v-forms: elements of each rank's block, and where each begins (nullptr: one after the other);
  // `count` is that of the one block of a buffer that has no array. Copied by prepare().
  const size_t* send_counts = nullptr;
  const size_t* send_places = nullptr;
  const size_t* receive_counts = nullptr;
  const size_t* receive_places = nullptr;
};

// The last collectives, made ready: calls that differ in their buffers alone need no planning.
class Memo {
 public:
  Memo();
  ~Memo();
  bool recall(const Operation& operation, engine::Call* call);
  void keep(const Operation& operation, const Buffers& buffers, const engine::Call& call);

 private:
  struct Entry;
  static constexpr size_t kEntries = 16;
  static size_t place_of(const Operation& operation);

  std::mutex lock_;
  std::unique_ptr<Entry[]> entries_;
};

// What a member asks for when a communicator is split; colour and key as in tbcclCommSplit.
struct SplitWish {
  int color = 0;
  int key = 0;
  std::string suffix;                     // of the child's name, where the configuration gives none
  const tbcclConfig_t* config = nullptr;  // may be NULL: as the parent
};

class Communicator {
 public:
  // Collective; see bring_up.cpp. On an error nothing is left behind.
  static Status create(int rank, int size, const bootstrap::MeetingPoint& where,
                       const Settings& settings, std::unique_ptr<Communicator>* communicator);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Collective; see split.h. NULL for ranks without a colour, and on an error.
  Status split(const SplitWish& wish, std::unique_ptr<Communicator>* child);

  int rank() const { return rank_; }
  int size() const { return size_; }
  uint32_t number() const { return number_; }
  const Settings& settings() const { return settings_; }
  const schedule::Basis& basis() const { return basis_; }
  Operators& operators() { return operators_; }
  engine::Lane& lane() { return family_->lane(); }
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
  // Waits for everything outstanding, and, if nothing else of the family is left here, says goodbye
  // without waiting for the others'. What is not complete after the connect time-out fails.
  void leave();

 private:
  friend class BringUp;
  friend class Family;
  friend class Split;
  Communicator(std::shared_ptr<Family> family, uint32_t number, int rank, std::vector<int> members,
               const Settings& settings);

  Status prepare_collective(const Operation& operation, engine::Call* call);
  Status prepare_message(const Operation& operation, engine::Call* call);
  std::string title() const;  // "the communicator", or "communicator NAME"
  // Nobody of the family but this one, now and ever: its finalize waits for the others' goodbyes.
  bool single() const { return number_ == kFirstCommunicator && !was_split_.load(); }
  Status others_left(uint64_t limit);
  Status prepare_send_receive(const Operation& operation, engine::Call* call);
  Status check_peer(const Operation& operation, const char* name, int peer, bool any);
  int contributors(tbcclOperation_t operation) const;
  uint64_t message_print(uint64_t count, tbcclDataType_t type) const;
  // Breaks it with `cause`, and ends every call that waits.
  void end_calls(const Status& cause);

  // --- for the family, with its lock held ---
  void told(const Status& cause);  // another rank broke it
  // Ranks of the family are turned into this communicator's; others are left out.
  int member_of(int family_rank) const;
  std::vector<bootstrap::PeerRecord> renumbered(
      const std::vector<bootstrap::PeerRecord>& records) const;
  bool has_left(int rank, const std::vector<bootstrap::PeerRecord>& others) const;
  // The other ranks of which that is not known.
  std::vector<int> present(const std::vector<bootstrap::PeerRecord>& others) const;
  // The error that the records show, if any.
  Status compare(const engine::CallRecord& mine, const std::vector<bootstrap::PeerRecord>& others);
  void compare_stalled(const std::vector<bootstrap::PeerRecord>& others);
  // Warns, once a call, when it has stalled for long: what it waits for, what the others do.
  void tell_stall(const engine::CallRecord& mine, const std::string& doing);
  // Keeps, as text, what each other rank was doing; also the answer.
  std::string note_doing(const engine::CallRecord& mine,
                         const std::vector<bootstrap::PeerRecord>& others);

  // --- for the family, by the lane's holder; as in engine::LaneEvents ---
  void mismatched(const engine::CallRecord& mine, int rank, const Status& cause);
  void stalled(const engine::CallRecord& mine);
  bool others_doing(const engine::CallRecord& mine, std::string* text);

  const std::shared_ptr<Family> family_;
  const uint32_t number_;
  const int rank_;
  const int size_;
  const std::vector<int> members_;  // ranks of the family, by rank
  const Settings settings_;
  std::string name_;
  schedule::Basis basis_;
  uint64_t basis_hash_ = 0;
  Operators operators_;
  std::unique_ptr<PlanCache> plans_;
  Memo memo_;
  engine::Channel* channel_ = nullptr;
  std::atomic<bool> finalized_{false};
  std::atomic<bool> left_{false};         // finalized or leaving, with everything done
  bool counted_ = true;                   // among those of the family that have not left
  std::atomic<bool> was_split_{false};    // or that was tried
  std::atomic<bool> comparing_{false};    // a query for call records is under way
  std::atomic<bool> asking_{false};       // likewise, for the text of a time-out
  std::atomic<bool> disagreeing_{false};  // likewise, after a mismatch: the channel will break

  // The call seen stalled last; under the family's lock.
  struct Stall {
    uint64_t number = 0;
    std::string text;
    uint64_t since = 0;
    uint64_t seen = 0;
    bool told = false;
  };
  Stall stall_;
  // What the lane's holder and the control thread tell each other. Never held while waiting for
  // anybody: the control thread waits for the holder with the family's lock held.
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

}  // namespace tbccl::comm
