// One communicator as the engine sees it: the order of its requests, their pool, its first error.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/matching.h"
#include "engine/request.h"

namespace tbccl::engine {

// Schedules of one channel that may be active at once.
inline constexpr int kActiveSchedules = 32;

// A list threaded through Request::previous and Request::following.
struct RequestList {
  Request* front = nullptr;
  Request* back = nullptr;
  bool empty() const { return front == nullptr; }
  void push_back(Request* request);
  void remove(Request* request);
};

class Channel {
 public:
  explicit Channel(const ChannelOptions& options);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  const ChannelOptions& options() const { return options_; }
  int comm_rank(int lane_rank) const;  // -1: not a member

  // --- any thread ---
  // Takes the call's place in the order and pushes it. The first error, if the channel is broken.
  Status submit(Home* home, const Call& call, int references, Inbox& inbox, Request** request);
  void unreference(Request* request);
  // A request that is started again and again, with what it has made ready: complete until it is
  // started. Its references: the user's, and each start's.
  Status keep(Home* home, const Call& call, Request** request);
  // As submit. InvalidArgument, and no effect, where it is in progress.
  Status start(Request* request, Inbox& inbox);
  // The channel's own request, with the next number; its call is over before the next one begins.
  // nullptr: the channel is broken. Only the holder.
  Request* submit_tiny(Home* home, const Call& call);
  // The parts of it, for calls that are mostly over before anybody has to know of them: takes the
  // next number (0: the channel is broken) and counts the call as outstanding; the request comes
  // later.
  uint64_t take_number();
  Request* make_own(Home* home, const Call& call, uint64_t number);
  // True for the first cause.
  bool break_with(const Status& cause);
  Status state() const;
  bool broken() const { return broken_.load(); }
  // Requests not complete, or with a callback that has not returned.
  std::atomic<int> outstanding{0};
  std::atomic<int> inside{0};  // threads in calls on this channel

  // --- the holder's ---
  RequestList queued;
  RequestList active;
  int active_schedules = 0;
  std::unique_ptr<Board> board;  // nullptr: its ranks do not share memory
  // The operation on the board, one at a time, and, behind it, active ones that wait for their
  // turn.
  Request* on_board = nullptr;
  Request* last_for_board = nullptr;
  uint64_t progressed_at = 0;  // when a request last started or completed
  Matching matching;
  bool told = false;     // LaneEvents::broken was called
  CallRecord broken_in;  // the oldest call that was active when it broke
  bool broken_handled = false;

  bool goes_on_board(const Call& call) const {
    return board != nullptr && call.kind == RequestKind::kSchedule &&
           call.plan->board != BoardUse::kNone;
  }

  // Pushed at most once, by whoever breaks the channel from outside.
  struct FailItem : Item {
    explicit FailItem(Channel* c) : Item(Item::Kind::kFail), channel(c) {}
    Channel* channel;
  } fail_item{this};

 private:
  Request* take_free();
  Request* make(Home* home, const Call& call);
  void place(Request* request, Inbox& inbox);

  const ChannelOptions options_;
  std::unordered_map<int, int> comm_ranks_;

  mutable std::mutex status_mutex_;
  Status cause_;
  std::atomic<bool> broken_{false};

  std::mutex submit_mutex_;  // submissions on one communicator are serialised
  uint64_t next_number_ = 1;
  Request* free_ = nullptr;
  std::vector<std::unique_ptr<Request>> all_;

  std::atomic<Request*> freed_{nullptr};  // given back by any thread; popped whole

  Tiny tiny_;
  Request own_request_;
};

}  // namespace tbccl::engine
