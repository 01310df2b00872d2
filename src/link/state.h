// The inside of Links: peers, trunks, transports. Everything here belongs to the lane's token.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "link/header.h"
#include "link/hello.h"
#include "link/links.h"
#include "link/messages.h"
#include "link/pool.h"
#include "link/table.h"

namespace tbccl::link {

// Times in nanoseconds.
inline constexpr uint64_t kMillisecond = 1'000'000;
inline constexpr uint64_t kAckDelay = 1 * kMillisecond;
inline constexpr uint64_t kStarvedDelay =
    kMillisecond / 2;  // before a small message asks for a grant
inline constexpr uint64_t kMinRetransmit = 4 * kMillisecond;  // well above kAckDelay
inline constexpr uint64_t kMaxRetransmit = 1000 * kMillisecond;
inline constexpr uint64_t kMinSilence = 500 * kMillisecond;  // before a trunk is doubted
inline constexpr uint64_t kFirstBackoff = 50 * kMillisecond;
inline constexpr uint64_t kLastBackoff = 1000 * kMillisecond;
inline constexpr uint64_t kDialTimeout = 5000 * kMillisecond;  // of one attempt
inline constexpr uint64_t kGrace = 3000 * kMillisecond;        // without any trunk
inline constexpr uint64_t kGoneGrace =
    1000 * kMillisecond;  // and the peer closed or reset the last
// Counts and bytes.
inline constexpr uint32_t kDataWindow =
    224;  // sequences data may use; the rest is for control frames
inline constexpr uint32_t kAckFrames = 32;
inline constexpr uint64_t kAckBytes = 128 * 1024;
// A message this short is copied rather than kept from its owner for an acknowledgement's round
// trip; of all that is copied, at most so much is unacknowledged.
inline constexpr uint64_t kCopyBelow = 64 * 1024;
inline constexpr uint64_t kCopyMost = 1024 * 1024;
inline constexpr uint32_t kMinSegment = 16 * 1024;
inline constexpr uint32_t kNarrowSegment = 4 * 1024;
inline constexpr uint32_t kNarrowFrames = 64;  // clean frames that end a narrowing
// A trunk's transport holds no more data than goes out in kHeldTime, so that grants and
// acknowledgements do not stand behind what a slow cable takes long for; a frame of it takes
// kFrameTime.
inline constexpr double kHeldTime = 4e6;   // ns
inline constexpr double kFrameTime = 2e6;  // ns
inline constexpr int kFlushRounds = 8;
inline constexpr int kStepBits = 24;          // of Send::order; above them is the turn
inline constexpr size_t kMaxEarly = 1 << 20;  // messages a peer may name before they are posted
inline constexpr size_t kMaxComms = 4096;     // and communicators it may name at a time
inline constexpr int kMaxProtocolErrors = 3;

struct Peer;

// One transport, opened once.
struct Context {
  Links::State* state = nullptr;
  const tbcclTransport_t* transport = nullptr;
  tbcclTransportContext_t* handle = nullptr;
  tbcclTransportProperties_t properties{};
};

// The frame that a placed transport is reading.
struct Incoming {
  enum class To : uint8_t { kNowhere, kClient, kStaging, kReserve, kVerify } to = To::kNowhere;
  bool active = false;
  Header header;
  std::array<std::byte, TBCCL_FRAME_HEADER_BYTES> raw{};  // kVerify
  Recv* recv = nullptr;                                   // kClient, kStaging
  std::byte* data = nullptr;                              // where it is read to
  std::byte* buffer = nullptr;                            // of the buffer pool, if it is one
};

struct Trunk {
  enum class State : uint8_t { kDown, kDialing, kUp };
  Peer* peer = nullptr;
  Context* context = nullptr;
  TrunkSpec spec;
  uint32_t number = 0;  // in the lane
  tbcclTrunk_t* handle = nullptr;
  State state = State::kDown;
  bool was_up = false;
  bool blocked = false;  // TBCCL_AGAIN; writable() follows
  bool suspect = false;  // late: not chosen while another can be
  uint16_t epoch = 0;    // of the present or last connection
  uint16_t next_number = 0;
  uint64_t changed =
      0;  // counts connections and losses: tells whether a callback changed the trunk
  List<Frame> inflight;  // in the order of transmission
  uint64_t inflight_bytes = 0;
  uint64_t held_bytes = 0;  // of those, what the transport has not reported sent
  Incoming incoming;

  uint64_t redial_at = kNever;
  uint64_t backoff = 0;
  uint64_t heard_at = 0;
  uint64_t acked_at = 0;   // last acknowledgement of a frame of this trunk
  uint64_t probed_at = 0;  // first probe that has not been followed by a sign of life; 0: none
  double rtt = 0, rtt_deviation = 0, least_rtt = 0;  // ns; 0: not measured
  double rate = 0;                                   // bytes per ns
  uint64_t rate_since = 0, rate_bytes = 0;
  bool rate_settled = false;  // not the first measurement since the trunk was idle
  uint64_t settled_ns = 0;    // that counters.rate_bytes took
  uint32_t retransmit_backoff = 1;
  uint32_t narrow = 0;  // clean frames still to come
  std::string last_error;
  TrunkCounters counters;

  bool up() const { return state == State::kUp; }
};

struct Peer {
  int rank = 0;
  std::vector<Trunk*> trunks;
  KeyTable<Send> sends;
  KeyTable<Recv> recvs;
  std::vector<std::unique_ptr<CommState>> comms;

  // Sending.
  List<Frame> queued;    // eager and control frames, before their first transmission
  List<Frame> requeued;  // have a sequence; to be transmitted (again)
  List<Send> ready;      // have granted bytes to send; lowest order first
  bool throttled =
      false;  // stopped because a trunk's transport holds enough; see flush_transports()
  std::array<Frame*, kWindow> window{};  // by sequence modulo kWindow
  uint32_t next_sequence = 1;
  uint32_t acked = 0;  // everything up to it
  bool pumping = false;

  // Receiving.
  uint32_t arrived = 0;                      // everything up to this sequence
  uint32_t highest = 0;                      // latest sequence that has arrived
  std::array<uint64_t, 4> beyond{};          // by sequence modulo kWindow: arrived out of order
  std::array<uint32_t, kWindow> reported{};  // bytes of an unfinished frame the client has had
  uint32_t ack_frames = 0;                   // arrived since an acknowledgement was sent
  uint64_t ack_bytes = 0;
  uint64_t ack_due = kNever;
  bool ack_now = false;
  bool ack_wanted = false;   // up to ack_wanted_sequence
  bool credit_held = false;  // goes back in the next round unless a header takes it before
  uint32_t ack_wanted_sequence = 0;
  Trunk* heard_on = nullptr;  // last

  // Life.
  bool failed = false;
  bool finished = false;
  bool gone = false;  // the last trunk that went down was closed by the peer
  bool was_up = false;
  uint64_t without_since = kNever;  // no trunk is up since then
  int protocol_errors = 0;
  std::string last_error;

  uint32_t outstanding() const { return next_sequence - 1 - acked; }
  bool has_gap() const { return highest != arrived; }
  bool seen(uint32_t sequence) const {
    const uint32_t i = sequence % kWindow;
    return !after(sequence, arrived) || (beyond[i / 64] >> (i % 64) & 1) != 0;
  }
};

struct Mismatch {
  Peer* peer = nullptr;
  Key key;
  Send* send = nullptr;
  Recv* recv = nullptr;
};

struct Links::State {
  State(const Options& options, Client& client, Watcher& watcher);
  ~State();

  // links.cpp
  uint64_t now() const { return options.clock(); }
  Peer& peer(int rank) { return *peers[static_cast<size_t>(rank)]; }
  void arm(uint64_t time) {
    if (time < timer_at) timer_at = time;
  }
  CommState& comm_of(Peer& peer, uint32_t comm);
  CommState* known(Peer& peer, uint32_t comm);  // nullptr if it was removed
  bool removed(uint32_t comm) const;
  void run_deferred();

  // trunk.cpp: connections of a trunk
  Status context_of(const tbcclTransport_t* transport, Context** context);
  void dial(Trunk& trunk);
  int incoming(Context& context, tbcclTrunk_t* handle, const void* hello, size_t hello_bytes,
               void* reply, size_t* reply_bytes, void** user);
  int trunk_up(Trunk& trunk, const void* reply, size_t reply_bytes);
  void sent(Frame& frame);
  void schedule_redial(Trunk& trunk);
  // The connection is gone; `closed`: the transport has forgotten it already.
  void trunk_lost(Trunk& trunk, bool closed, bool gone, const std::string& text);
  void protocol_error(Trunk& trunk, const char* text);
  void fail(Peer& peer, Status status, bool tell);

  Trunk* shared_trunk(int peer);  // one whose ends share memory; nullptr: none is up

  // stripe.cpp: which trunk carries the next frame
  Trunk* choose(Peer& peer, uint32_t length) const;
  uint32_t segment(const Peer& peer, uint64_t total) const;
  bool may_hold(const Trunk& trunk, uint32_t length) const;
  bool room(const Peer& peer, const Trunk& trunk) const;
  void measure(Trunk& trunk, const Frame& frame);

  // send.cpp: messages that leave
  bool feed(Send& send);    // makes eager frames, or announces; false: the send is gone
  bool finish(Send& send);  // if everything is acknowledged; false: the send is gone
  void announce(Send& send);
  bool pump(Peer& peer);  // whether a frame was given to a transport
  bool pump_one(Peer& peer);
  void transmit(Trunk& trunk, Frame& frame);
  Frame* control(Peer& peer, FrameKind kind, const Key& key);
  void on_grant(Peer& peer, const Header& header);
  void on_credit(Peer& peer, uint32_t comm, uint32_t credit);
  void mismatch(Send& send);
  void drop(Send& send);  // forgets it
  void make_ready(Send& send);
  void feed_starved(CommState& comm);
  void ask_for_grants(CommState& comm);
  void withdraw(Send& send);

  // ack.cpp: acknowledgements, both ways
  const char* on_ack(Peer& peer, const Header& header);
  void acknowledge(Peer& peer, Frame& frame);
  void release_frame(Frame* frame);
  void note_arrival(Peer& peer, const Trunk& trunk, const Header& header);
  bool ack_is_due(const Peer& peer) const;
  void send_ack(Peer& peer, Trunk& trunk, bool probe);
  void send_ack_if_due(Peer& peer);
  void requeue(Peer& peer, Frame& frame);
  void find_lost(Trunk& trunk, uint16_t acked_number);

  // recv.cpp: messages that arrive
  Recv* route(Peer& peer, const Header& header, bool* discard, const char** error);
  bool report(Recv& recv, uint64_t offset, uint32_t length, const std::byte* data);
  bool hand_over(Recv& recv);  // early frames that have become deliverable; false: the recv is gone
  void store_early(Recv& recv, const Header& header, std::byte* buffer);
  void grant(Recv& recv);
  void on_announce(Peer& peer, const Header& header);
  bool compare(Recv& recv);  // false: mismatch
  void drop(Recv& recv);
  void clear_early(Recv& recv);
  void count_eager(Peer& peer, const Header& header);  // when the frame has arrived
  void consume(Peer& peer, uint32_t comm, uint32_t length);
  void return_credit(Peer& peer, CommState& comm);
  void return_held_credit(Peer& peer);
  void mismatch(Recv& recv);
  void withdraw(Recv& recv);
  void settle(Recv& recv);  // frees it if nothing needs it any more

  // frames.cpp: frames that arrive
  bool open_header(Trunk& trunk, const void* bytes, uint32_t length, Header* header);
  void* place(Trunk& trunk, const void* bytes, uint32_t length);
  void progress(Trunk& trunk, const void* bytes, uint32_t bytes_there, uint32_t length);
  void deliver(Trunk& trunk, const void* bytes, const void* payload, uint32_t length);
  void take_whole(Trunk& trunk, const Header& header, const std::byte* payload);
  void take_control(Trunk& trunk, const Header& header);
  void abandon_incoming(Trunk& trunk);  // the link's side of a redirect or a loss
  void redirect(Trunk& trunk);

  // timers.cpp
  // What was sent together leaves together; as long as that makes room, more does. False: it could
  // go on.
  bool flush_transports();
  void run_timers();
  void check_retransmit(Trunk& trunk, uint64_t time);
  void check_silence(Peer& peer, uint64_t time);
  void check_life(Peer& peer, uint64_t time);

  Options options;
  Client& client;
  Watcher& watcher;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<Peer*> linked;  // those that have trunks
  std::vector<std::unique_ptr<Trunk>> trunks;
  std::vector<uint32_t> removed_comms;  // sorted
  std::vector<Mismatch> mismatches;     // to be told at the next safe point
  std::vector<std::pair<Peer*, Status>> failures;
  uint64_t timer_at = kNever;
  uint64_t turns = 0;  // taken so far
  Pool<Frame> frames;
  Pool<Send> sends;
  Pool<Recv> recvs;
  Pool<EarlyFrame> early_frames;
  BufferPool buffers;
  uint64_t copied = 0;  // bytes of granted data in Frame::copy
};

}  // namespace tbccl::link
