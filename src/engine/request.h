// One operation, from its submission until its last reference is given up.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/engine.h"
#include "engine/execution.h"
#include "engine/inbox.h"

namespace tbccl::engine {

class Home;

// Point-to-point calls: the one message, or the one each way, once it has a number.
struct Message {
  int peer = 0;  // rank of the links; of the peer (of whom it is received from), once that is known
  bool matched = false;
  bool sent = false, received = false;  // also where there is nothing to send, or to receive
  bool done() const { return sent && received; }
  link::Send* send = nullptr;
  link::Recv* recv = nullptr;
};

struct Request final : Item {
  enum class Phase : uint8_t { kQueued, kActive, kWithdrawing, kComplete };

  Request() : Item(Item::Kind::kSubmit) {}

  // --- set by the submitter, before the push ---
  Channel* channel = nullptr;
  Home* home = nullptr;
  Call call;
  uint64_t number = 0;             // schedules: of the operation in its communicator, from 1
  uint32_t element = 1;            // bytes
  std::atomic<int> references{0};  // user, lane, callbacks
  bool lasting = false;            // its user starts it again and again

  // --- the holder's ---
  Phase phase = Phase::kQueued;
  bool touched = false;  // is in Core's list of requests to settle
  uint64_t deadline = kNever;
  uint64_t late_since = 0;     // when the deadline was seen to have passed
  uint64_t progressed_at = 0;  // queued: when it was
  uint64_t reported_at = 0;    // last report of a stall
  Execution execution;         // schedules
  Tiny* tiny = nullptr;        // schedules, of the channel's own request alone: instead of it
  Board* board = nullptr;      // schedules, where they go over the channel's board: instead of it
  Request* behind = nullptr;   // the next one for the board
  bool own = false;            // the channel's own request: nobody refers to it but its caller
  Message message;
  Request* previous = nullptr;   // among the channel's active ones,
  Request* following = nullptr;  // or among its queued ones

  // --- guarded by Callbacks' mutex ---
  Request* next_callback = nullptr;
  int callbacks_due = 0;                         // more than one: it was started again meanwhile
  tbcclResult_t callback_result = tbcclSuccess;  // of the last

  // --- written by the holder before `complete` is set ---
  Status result;
  int source = -1;  // rank of the communicator
  std::atomic<bool> complete{false};
  std::atomic<bool> at_rest{false};  // and the holder does no more with it than give it up

  Request* next_free = nullptr;  // the pool's

  uint64_t bytes() const { return call.count * element; }  // of what is received, if anything is
  bool sends_and_receives() const { return call.kind == RequestKind::kSendRecv; }
  uint64_t bytes_sent() const {
    return (sends_and_receives() ? call.send_count : call.count) * element;
  }
  uint64_t fingerprint_sent() const {
    return sends_and_receives() ? call.send_fingerprint : call.fingerprint;
  }
};

}  // namespace tbccl::engine
