// What the links remember about messages and frames. Who owns what memory is in README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "link/header.h"
#include "link/links.h"
#include "link/pool.h"

namespace tbccl::link {

struct Trunk;

// A frame that has been built and is not yet acknowledged (or whose memory a transport still
// reads). In exactly one of: Peer::queued (no sequence yet), Peer::requeued, Trunk::inflight.
struct Frame {
  Frame* next = nullptr;
  Frame* previous = nullptr;
  Header header;
  const std::byte* data = nullptr;  // the payload: the user's memory, or `copy`
  std::byte* copy = nullptr;        // of the buffer pool, header.length bytes
  Send* send = nullptr;             // whose memory `data` is; nullptr for copies and control frames
  Recv* recv = nullptr;             // kGrant, until it is transmitted: see Recv::queued_grant
  Trunk* trunk = nullptr;           // in whose inflight list it is
  uint64_t sent_at = 0;
  uint16_t number = 0;  // on that trunk
  uint8_t tries = 0;    // transmissions so far, saturating
  bool held = false;    // the transport has not reported sent()
  bool acked = false;   // and stays only because it is held
  bool copied = false;  // granted data in `copy`, counted in State::copied
};

struct Send {
  Send* next = nullptr;  // Peer::ready or CommState::starved
  Send* previous = nullptr;
  Key key;
  int peer = 0;
  enum class In : uint8_t { kNone, kReady, kStarved } in = In::kNone;
  bool posted = false;       // false: only grants have come so far, or it is a ghost
  bool ghost = false;        // released; stays until its last grant has come
  bool begun = false;        // a frame of it exists
  bool announced = false;    // a kAnnounce of it exists
  bool wants_grant = false;  // announced for want of credit: eager no more
  bool mismatched = false;
  bool final_grant =
      false;  // the grant of the whole message has come, it was number `grants_final`
  uint8_t grants_seen = 0;
  uint8_t grants_final = 0;
  const std::byte* data = nullptr;
  uint64_t order = 0;  // the lower goes first; equal ones in the order in which they became ready
  uint64_t total = 0;
  uint64_t available = 0;
  uint64_t granted = 0;
  uint64_t sent = 0;  // bytes [0, sent) have been made into frames
  uint64_t fingerprint = 0;
  uint32_t outstanding = 0;  // frames that refer to `data`
  void* owner = nullptr;
  uint32_t index = 0;
};

// An eager frame that came before its place was known.
struct EarlyFrame {
  EarlyFrame* next = nullptr;
  EarlyFrame* previous = nullptr;
  std::byte* data = nullptr;  // of the buffer pool
  uint64_t offset = 0;
  uint32_t length = 0;
  uint32_t handed = 0;  // bytes already given to the client
};

struct Recv {
  Key key;
  int peer = 0;
  bool posted = false;
  bool withdrawn = false;         // stays as a gravestone, so that what still comes is recognised
  bool done = false;              // complete; stays until its announcement has come
  bool announced = false;         // its kAnnounce has come
  bool expects_announce = false;  // its data said that there is one
  bool wants_grant = false;       // the sender waits for a grant although the message is small
  bool peer_known = false;        // total and fingerprint of the sender are known
  bool told = false;              // Client::unexpected was called
  bool mismatched = false;
  uint8_t grants = 0;  // grants made, modulo 256
  uint8_t busy = 0;    // callbacks about it that are running
  uint64_t total = 0;
  uint64_t granted = 0;
  uint64_t grant_sent = 0;
  uint64_t received = 0;  // bytes reported
  uint64_t fingerprint = 0;
  uint64_t peer_total = 0;
  uint64_t peer_fingerprint = 0;
  uint32_t unit = 1;
  Frame* queued_grant = nullptr;  // not transmitted yet: takes later extensions in
  List<EarlyFrame> early;
  void* owner = nullptr;
  uint32_t index = 0;
};

// One communicator at one peer: the eager credit of both directions, modulo 2^32.
struct CommState {
  uint32_t comm = 0;
  uint32_t sent = 0;           // eager bytes sent
  uint32_t sent_consumed = 0;  // of those, consumed by the peer
  uint32_t arrived = 0;        // eager bytes received
  uint32_t consumed = 0;       // of those, given to the client or thrown away
  uint32_t told = 0;           // value of `consumed` the peer was last told
  bool credit_queued = false;
  uint64_t starved_since = 0;
  List<Send> starved;  // small messages that wait for credit
};

// What an eager frame costs: a whole number of 64-byte units, at least one, so that the number
// of frames in the reserve is bounded as well as their bytes.
inline uint32_t eager_cost(uint64_t length) {
  return length <= 64 ? 64 : static_cast<uint32_t>((length + 63) / 64 * 64);
}

}  // namespace tbccl::link
