// The engine: carries schedules out. See README.md of this folder for states and owners.
//
// A Lane belongs to one local rank: its links, the requests in progress, one worker thread. One
// thread at a time holds the lane's token (a waiting caller, or the worker); only the holder
// touches links, steps and active requests. Everything public here may be called from any
// thread, except where it says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/settings.h"
#include "base/status.h"
#include "engine/board.h"
#include "engine/tiny.h"
#include "link/links.h"
#include "reduce/reduce.h"
#include "schedule/schedule.h"

namespace tbccl::engine {

class Lane;
struct Request;  // pooled; see request.h
class Joint;     // see joint.h

// A schedule made ready for the engine: shared by all calls that use it.
struct Plan {
  schedule::Schedule schedule;
  uint64_t hash = 0;
  std::shared_ptr<const TinyProgram> tiny;  // of the same schedule; nullptr: too long for it
  BoardUse board = BoardUse::kNone;         // how a channel that has a board carries it out
};

// One communicator as the engine sees it: an order of requests, a first error. Created by
// comm/, destroyed after its last request is gone and all callers have left.
class Channel;

struct ChannelOptions {
  uint32_t comm = 0;  // id in the headers
  int rank = 0;       // in this communicator
  int size = 1;
  std::vector<int> peers;  // rank in this communicator -> rank of the lane's links
  // Which set of lines of its board each rank has for this communicator (Lane::reserve_board), by
  // rank. Empty: number comm - 1, on every rank.
  std::vector<int> board_sets;
  std::string name;  // for messages
};

enum class RequestKind : uint8_t { kSchedule, kSend, kRecv, kSendRecv };

// The blocks of a call with variable counts, by number: elements, and where each begins in the
// user's buffers that hold it. Copied from the caller's arrays.
struct Blocks {
  std::vector<uint64_t> counts, input, output;  // elements
};

// What a caller submits; plain values, copied into the pooled request.
struct Call {
  RequestKind kind = RequestKind::kSchedule;
  const char* operation = "";        // "all-reduce", for messages; static text
  std::shared_ptr<const Plan> plan;  // kSchedule
  const void* input = nullptr;
  void* output = nullptr;
  uint64_t count = 0;                    // elements of each block; kSendRecv: to be received
  std::shared_ptr<const Blocks> blocks;  // kSchedule with variable counts: instead of `count`
  reduce::Reduction reduction;           // also gives the type
  int peer = 0;  // kSend, kRecv: rank in the communicator, or TBCCL_ANY_SOURCE; kSendRecv: source
  int tag = 0;
  int to = 0;                                      // kSendRecv: whom to send to
  uint64_t send_count = 0;                         // kSendRecv
  uint64_t send_fingerprint = 0;                   // kSendRecv: of the message that is sent
  uint64_t fingerprint = 0;                        // of the rank-invariant arguments
  std::string (*describe)(const Call&) = nullptr;  // arguments as text, for error messages
  uint64_t timeout_ns = 0;                         // 0: none; counted from the start
  tbcclCallback_t callback = nullptr;              // run on a thread that holds no token
  void* callback_context = nullptr;
  tbcclStartWhen_t start_when = tbcclStartNow;
  const volatile uint32_t* flag = nullptr;
  uint32_t flag_value = 0;
  int descriptor = -1;
  std::shared_ptr<Joint> joint;  // it stands for several; input and output are the joint's
};

// A call's state, exchanged between ranks when one makes no progress for a second.
struct CallRecord {
  uint64_t number = 0;  // of the operation in its communicator, from 1; 0: none active
  uint64_t fingerprint = 0;
  std::string text;              // operation and arguments
  std::vector<int> waiting_for;  // ranks of the communicator
};

// What the engine needs from the control plane; called by the token's holder; must not block.
class LaneEvents {
 public:
  virtual ~LaneEvents() = default;
  // The first error that breaks a channel, once each. Told to the other ranks by the receiver.
  virtual void broken(uint32_t comm, const Status& cause) = 0;
  // Both sides' arguments differ for an operation; `mine` is this rank's call (number 0 where it
  // has not made one yet). The receiver may find out the other side's arguments, and then fails
  // the channel, within two seconds; if it does not (false), the channel breaks with `cause`.
  virtual bool mismatched(uint32_t /*comm*/, const CallRecord& /*mine*/, int /*rank*/,
                          const Status& /*cause*/) {
    return false;
  }
  // A request's deadline has passed: what the other ranks are doing, as text for the error. False:
  // it is being found out, `text` is what was known before (may be empty); asked again soon, for a
  // second at most.
  virtual bool others_doing(uint32_t /*comm*/, const CallRecord& /*mine*/, std::string* text) {
    text->clear();
    return true;
  }
  // What the trunks have carried; about each second while something is going on.
  virtual void carried(const std::vector<link::TrunkCounters>& /*trunks*/) {}
  // A request has made no progress for a second (then every second).
  virtual void stalled(uint32_t comm, const CallRecord& record) = 0;
};

struct LaneOptions {
  Settings settings;
  int runnable_ranks = 1;  // ranks of this job on this host
  std::string name;
  std::function<void()> worker_started;  // run once on the worker: places it; may be empty
};

class Lane {
 public:
  Lane(const LaneOptions& options, const link::Options& links, LaneEvents& events);
  ~Lane();  // stops the worker; closes the links
  // Not ok: the system refused a thread or a descriptor; nothing can be submitted.
  Status status() const;

  // Runs `f(links)` while holding the token (set-up, counters, tear-down). Blocks for the token.
  void with_links(const std::function<void(link::Links&)>& f);
  // Makes progress until `done(links)` or the time; for set-up and tear-down. False: time ran out.
  bool drive(const std::function<bool(link::Links&)>& done, uint64_t deadline_ns);

  Channel* add_channel(const ChannelOptions& options);
  // Blocks until no request of it is left and no thread is inside; its requests are then invalid.
  void remove_channel(Channel* channel);

  // Collectives of this channel whose plans may use it go over the board that all its ranks share,
  // from now on. False: they do not share one. All ranks must come to the same answer, or leave it
  // again, before the first operation.
  bool join_board(Channel* channel);
  void leave_board(Channel* channel);
  // A set of lines of this rank's board that no channel has and nobody reads any more, for
  // ChannelOptions::board_sets; -1: there is none. Removing the channel gives it back, in time.
  int reserve_board();
  void return_board(int set);  // no channel was added with it

  // Takes the call's place in the channel's order. Never blocks. The channel's first error is
  // returned if it is broken; then no request is made.
  Status submit(Channel* channel, const Call& call, Request** request);
  // The same for several calls in a row, of which nobody knows before tell(). `users` of the
  // request, at least one, release it.
  Status enqueue(Channel* channel, const Call& call, int users, Request** request);
  Status enqueue_start(Request* request);  // of a lasting one
  // `waits`: the calling thread is going to wait for one of them now.
  void tell(bool waits);
  // As submit and wait and free in one: the path of blocking calls.
  Status run(Channel* channel, const Call& call);

  // A request for a call that is started again and again: planned, and with all its memory after
  // the first start. Complete until it is started, as any other afterwards; released by its user.
  Status keep(Channel* channel, const Call& call, Request** request);
  // Each takes its place in the order of its channel, as by submit(). InvalidArgument where it is
  // in progress, without effect; never blocks, allocates nothing.
  Status start(Request* request);

  // Does not block; makes a round if the request is incomplete and the token is to be had.
  bool test(Request* request, Status* result);
  // Status InProgress when `timeout_ns` (kNever: none) ran out. The request stays valid.
  Status wait(Request* request, uint64_t timeout_ns);
  int source(const Request* request) const;
  void release(Request* request);  // frees, or detaches if active

  // Breaks the channel with `cause` (first one wins), completes every request of it with it,
  // after withdrawing their messages. Returns at once; waiting threads return soon.
  void fail(Channel* channel, const Status& cause);
  // A rank of the lane's links is gone (or unreachable): fails the channels it belongs to.
  void peer_gone(int peer, const Status& cause);
  void peer_finished(int peer);  // it said goodbye

  Status state(Channel* channel) const;  // ok, or the first error
  CallRecord record(Channel* channel);   // of the oldest active request
  // Waits until nothing is outstanding on the channel and everything sent is acknowledged.
  Status drain(Channel* channel, uint64_t deadline_ns);
  // Waits until nothing is outstanding on the channel. What it has sent and not kept its memory for
  // may still be under way: enough if the lane goes on.
  Status quiesce(Channel* channel, uint64_t deadline_ns);
  uint64_t payload_received() const;  // bytes, all trunks

 private:
  bool at_rest(Channel* channel);
  struct State;
  std::unique_ptr<State> state_;
};

// Waits for any of several requests, of any lanes.
Status wait_any(Request* const* requests, int count, uint64_t timeout_ns, int* index);

// Bookkeeping around fork(): true in a child of the process that made the lane.
bool forked();

}  // namespace tbccl::engine
