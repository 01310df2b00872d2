// The links of one lane: everything between the lane's rank and each peer, over all trunks.
// See README.md of this folder for the protocol: states, owners, failures.
//
// Single-threaded: whoever holds the lane's token calls in, and callbacks come from inside
// progress(), or from inside the call that caused them. No call blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "tbccl/transport.h"

namespace tbccl::link {

enum class Class : uint8_t { kCollective = 0, kPointToPoint = 1, kControl = 2 };

// Names one message of an ordered pair of ranks.
struct Key {
  uint32_t comm = 0;
  Class cls = Class::kCollective;
  uint32_t step = 0;  // collectives: the tag in the schedule; point-to-point: the user's tag
  uint64_t op = 0;    // collectives: number in the communicator; point-to-point: number of the
                      // message among those of this pair and tag
  bool operator==(const Key&) const = default;
};

struct Send;  // one message being sent; owned by the links, valid until released in full or
              // withdrawn
struct Recv;  // one message being received; valid until all of it has arrived or it is withdrawn

struct SendSpec {
  Key key;
  const std::byte* data = nullptr;  // stays readable until released
  uint64_t total = 0;               // bytes of the message
  uint64_t available = 0;           // prefix that may be sent now; extend() raises it
  uint64_t fingerprint = 0;         // of the rank-invariant arguments; must equal the receiver's
  bool announce = false;  // point-to-point: tell the peer at once, a receive may have no source yet
  // Of two messages that could go, the one with the lower turn goes first, then the one with the
  // lower step. 0: a turn of its own.
  uint64_t turn = 0;
  uint32_t step = 0;
  void* owner = nullptr;  // comes back in callbacks
  uint32_t index = 0;
};

struct RecvSpec {
  Key key;
  uint64_t total = 0;    // bytes of the message; another length is a mismatch
  uint64_t granted = 0;  // prefix whose destination may be overwritten now; extend() raises it
  uint64_t fingerprint = 0;
  uint32_t unit = 1;  // arrived() reports multiples of this (an element), but for the message's end
  void* owner = nullptr;
  uint32_t index = 0;
};

// What the owner of the messages (the engine) does. Callbacks may call post_send, post_recv and
// extend.
class Client {
 public:
  virtual ~Client() = default;
  // Where bytes [offset, offset + length) of the message may be written by the transport:
  // either the final place, or a staging area of the trunk with number `trunk` (0-based, unique
  // in the lane, at most one placed frame at a time each) of at least `length` bytes. Writing may
  // stop half-way and start again for the same bytes.
  virtual std::byte* place(void* owner, uint32_t index, uint64_t offset, uint32_t length,
                           uint32_t trunk) = 0;
  // Bytes [offset, offset + length) are at `data` (inside what place() returned, or anywhere else
  // during this call). Every byte of a message is reported exactly once, in any order, only
  // within the granted prefix; an empty message once with length 0. `last`: the message is
  // complete, the Recv is gone.
  virtual void arrived(void* owner, uint32_t index, uint64_t offset, uint32_t length,
                       const std::byte* data, bool last) = 0;
  // The whole message is released: its memory is not read any more, the Send is gone.
  virtual void released(void* owner, uint32_t index) = 0;
  // A point-to-point message for which no receive is posted was announced or has begun to arrive;
  // once per message.
  virtual void unexpected(int peer, const Key& key, uint64_t total, uint64_t fingerprint) = 0;
  // Both sides' arguments differ for this message (lengths or fingerprints).
  virtual void mismatch(int peer, const Key& key, void* owner, uint32_t index) = 0;
  // No trunk to this peer is left, or may be expected back in time. `status` names peer and trunk.
  virtual void peer_failed(int peer, const Status& status) = 0;
};

// Where the lane sleeps.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void watch(int descriptor, int events) = 0;  // as tbcclTransportCallbacks_t::watch
};

// One path to a peer, as agreed by both ends.
struct TrunkSpec {
  int peer = 0;
  uint32_t id = 0;  // the same at both ends, unique per pair
  const tbcclTransport_t* transport = nullptr;
  std::string local_address;      // empty: any
  std::vector<std::byte> handle;  // the peer's; only used by the end that connects (the lower rank)
  bool striped = true;            // false: used only while no striped trunk of the pair is up
  double rate = 0;                // bytes per ns expected, 0: unknown
  std::string name;               // for messages: "tcp 10.0.0.1-10.0.0.2"
};

struct Options {
  int rank = 0;
  int size = 1;
  std::array<uint8_t, 16> session{};  // random, equal on all ranks of the job
  uint64_t connect_timeout_ns = 60'000'000'000;
  // Unconsumed bytes per communicator and peer. Messages of at most half as much need no grant, so
  // that one may follow another before the first one's credit has come back.
  uint32_t eager_bytes = 256 * 1024;
  uint32_t segment_bytes = 0;    // 0: the transport's best
  std::string secret;            // authentication block of the handshake; empty: none
  uint64_t (*clock)() = now_ns;  // tests give a virtual one

  uint32_t small_bytes() const { return eager_bytes / 2; }
};

// Counters of one trunk, for logs, tests and tbccl-perf.
struct TrunkCounters {
  int peer = 0;
  uint32_t id = 0;
  bool up = false;
  std::string name;         // of its TrunkSpec
  double rate = 0;          // bytes per ns: the mean while it was kept busy for longer than bursts
  uint64_t rate_bytes = 0;  // over which that was measured
  uint64_t payload_sent = 0, payload_received = 0, frames_sent = 0, frames_received = 0,
           retransmitted = 0, duplicates = 0, failures = 0;
};

class Links {
 public:
  Links(const Options& options, Client& client, Watcher& watcher);
  ~Links();  // closes everything
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // --- set-up, before progress() ---
  // Listens at a local address; the handle is for the peers' TrunkSpec.
  Status listen(const tbcclTransport_t* transport, const std::string& address,
                std::vector<std::byte>* handle);
  // Both ends call it for the same trunks; connecting starts, and goes on in progress().
  Status add_trunk(const TrunkSpec& spec);
  bool connected(int peer) const;  // at least one trunk is up
  bool all_connected() const;      // every trunk added is up

  // --- communicators: a link serves several; ids are agreed, unique per process pair ---
  void add_communicator(uint32_t comm);
  void remove_communicator(uint32_t comm);  // drops what is left of it, also what comes later

  // --- messages ---
  uint64_t take_turn();  // later than all that were taken, or posted without one, before
  Send* post_send(int peer,
                  const SendSpec& spec);  // may release inside the call: then returns nullptr
  void extend(Send* send, uint64_t available);
  Recv* post_recv(int peer,
                  const RecvSpec& spec);  // may complete inside the call: then returns nullptr
  void extend(Recv* recv, uint64_t granted);
  // After it no memory of this message is read or written, and no callback for it comes.
  void withdraw(Send* send);
  void withdraw(Recv* recv);

  // --- progress ---
  bool progress();              // polls all trunks once, runs timers; true if anything happened
  void flush();                 // sends acknowledgements and grants that are being held back
  uint64_t next_timer() const;  // now_ns() of the next timer, kNever if none
  bool can_sleep();             // nothing is ready, and descriptors cover every source
  // About to sleep: from now on whatever the peers do makes a descriptor readable; progress() once
  // more before sleeping. And awake again.
  void sleeping(bool asleep);

  // --- memory that ranks of one host share (see tbcclBoard_t) ---
  // False: there is none between this rank and that peer. The boards stay valid with the links.
  bool board(int peer, tbcclBoard_t* board);
  void ring(int peer);  // wakes the peer if it sleeps
  // What the peer needs to read [memory, memory + bytes) itself; false: it cannot, or not now.
  bool refer(int peer, const void* memory, uint64_t bytes, tbcclReference_t* reference);
  // Behind a reference of the peer's; nullptr: it makes no sense.
  const std::byte* reach(int peer, const tbcclReference_t& reference, uint64_t bytes);

  // The other end said goodbye, or its process is known to be gone: no further connecting.
  void peer_finished(int peer);
  void fail_peer(int peer, const Status& status);
  std::vector<TrunkCounters> counters() const;
  std::string describe(
      int peer) const;  // one line for error messages: trunks and what is waited for
  // Everything sent to this peer has been acknowledged, and everything that came from it; or it
  // is gone, and nothing will be.
  bool idle(int peer) const;
  bool gone(int peer) const;  // it said goodbye, or failed

  struct State;  // state.h, for this folder alone

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tbccl::link
