// What the holder of a lane's token does: takes in what others pushed, lets the links progress,
// carries requests on, keeps their timers. Only the holder calls in, but for unfinished() and
// payload_received().
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/board_sets.h"
#include "engine/channel.h"
#include "engine/engine.h"
#include "engine/gates.h"
#include "engine/inbox.h"
#include "engine/poller.h"
#include "engine/request.h"
#include "engine/token.h"
#include "link/links.h"

namespace tbccl::engine {

class Callbacks;
class Waiters;

// When a time-out (0: none) that runs from `since` is over.
inline uint64_t after(uint64_t since, uint64_t timeout_ns) {
  return timeout_ns != 0 && timeout_ns < kNever - since ? since + timeout_ns : kNever;
}

// A request without progress for so long is reported, and again after each further such time.
inline constexpr uint64_t kStallNs = 1'000'000'000;

class Core final : public link::Client {
 public:
  struct Parts {
    Token* token;
    Inbox* inbox;
    Poller* poller;
    Waiters* waiters;
    Callbacks* callbacks;
  };
  Core(const link::Options& options, LaneEvents& events, const Parts& parts);

  // Everything that can be done now, at most about kSliceBytes of local work; false: nothing was.
  // An exception in the middle of it breaks every channel.
  bool round() noexcept;
  // What has just been thrown breaks every channel in the next round.
  void failed() noexcept;
  // Starts a call of the tiny path, carried on by rounds until its phase is kComplete. nullptr:
  // something else is outstanding, or the channel broken; the call takes the long way.
  Request* start_tiny(Channel* channel, const Call& call, Home* home);
  // Nothing is outstanding, as far as this holder knows.
  bool quiet() const;
  // A call that was begun on the channel's board is carried on by rounds from now on.
  Request* adopt(Channel* channel, const Call& call, uint64_t number, Home* home);
  uint64_t now() const { return now_; }  // at the beginning of the last round
  link::Links& links() { return links_; }
  BoardSets& boards() { return boards_; }
  // How long the holder may sleep in the poller; 0: not at all.
  uint64_t sleep_time(uint64_t deadline);
  // From now on the peers ring for what they do; and once more everything that can be done. True:
  // there was something.
  bool about_to_sleep() noexcept;
  void awake();  // after a sleep, or instead of one

  Channel* add_channel(const ChannelOptions& options);
  void remove_channel(Channel* channel);
  CallRecord record(Channel* channel) const;

  // Requests queued or active. Any thread.
  int unfinished() const { return unfinished_.load(); }
  uint64_t payload_received() const { return payload_received_.load(std::memory_order_relaxed); }

  // link::Client
  std::byte* place(void* owner, uint32_t index, uint64_t offset, uint32_t length,
                   uint32_t trunk) override;
  void arrived(void* owner, uint32_t index, uint64_t offset, uint32_t length, const std::byte* data,
               bool last) override;
  void released(void* owner, uint32_t index) override;
  void unexpected(int peer, const link::Key& key, uint64_t total, uint64_t fingerprint) override;
  void mismatch(int peer, const link::Key& key, void* owner, uint32_t index) override;
  void peer_failed(int peer, const Status& status) override;

 private:
  bool make_round();
  void break_all();
  bool drain_inbox();
  void take_in(Item* item);
  void take_in(Request* request);
  void walk_gates();
  void start_queued(Channel* channel);
  // False: it cannot, and stays in the queue until its channel breaks.
  bool start(Request* request);
  bool begin(Request* request);
  void activate(Request* request);
  void set_deadline(Request* request);  // its time runs from now on
  void start_message(Request* request);
  void start_send(Request* request, std::vector<Match>* matches);
  void match(Channel* channel, std::vector<Match>& matches);
  void copy_to_self(Request* send, Request* receive);

  void touch(Request* request);
  bool settle();
  // True: local work is left.
  bool settle(Request* request, uint64_t* budget);
  bool walk_boards();
  void board(Request* request);  // takes its turn on the board, now or behind others
  void leave_board(Request* request);
  void done(Request* request);
  void disagree(Request* request, int rank);
  Status unreadable(const Request* request, int owner) const;
  void finish(Request* request, const Status& result);

  // Remembers a cause found inside a callback of the links; handled at the end of the round.
  void break_later(Channel* channel, const Status& cause);
  void break_peer(int peer, const Status& cause);
  bool handle_breaks();
  void break_channel(Channel* channel, const Status& cause);
  void withdraw(Request* request);

  void timers();
  // False: what the other ranks are doing is not known yet, and may still be waited for.
  bool explain(Request* request, std::string* others);
  Status timed_out(const Request* request, const std::string& others) const;
  void check_queue(Channel* channel);
  Status queue_timed_out(const Request* request) const;
  Status gate_timed_out(const Request* request) const;
  std::vector<int> waiting_for(const Request* request) const;
  CallRecord record_of(const Request* request) const;

  Channel* find(uint32_t comm) const;

  Parts parts_;
  LaneEvents& events_;
  Gates gates_;
  BoardSets boards_;
  uint64_t now_ = 0;
  uint64_t next_check_ = kNever;
  uint64_t told_carried_ = 0;
  uint64_t nap_ns_ = 0;  // of sleeps that no descriptor ends
  std::atomic<int> unfinished_{0};
  std::atomic<uint64_t> payload_received_{0};
  std::vector<std::unique_ptr<Channel>> channels_;
  Item* taken_ = nullptr;          // out of the inbox, not looked at yet
  std::exception_ptr failure_;     // thrown where no single request could be blamed
  std::vector<Request*> touched_;  // to be settled
  std::vector<Request*> again_;    // have local work left
  std::vector<std::pair<Channel*, Status>> breaks_;
  std::vector<Match> matches_;  // spare memory

  // Where a trunk's frames go that cannot be received in place; one each, from their first use on.
  struct Staging {
    struct Free {
      void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte, Free> memory;
    uint32_t bytes = 0;
    std::byte* reserve(uint32_t length);
  };
  std::vector<Staging> staging_;

  link::Links links_;  // last: closes before what its callbacks use
};

// Runs a Home's Visit item.
void run_visit(Item* item, Core& core);

// What peer_gone and peer_finished push.
struct PeerItem final : Item {
  PeerItem(Kind k, int p, const Status& c) : Item(k), peer(p), cause(c) {}
  int peer;
  Status cause;
};

}  // namespace tbccl::engine
