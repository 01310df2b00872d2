// Messages that arrive: matching, grants, and handing bytes to the client exactly once.
#include <algorithm>

#include "link/state.h"

namespace tbccl::link {

void Links::State::drop(Recv& recv) {
  clear_early(recv);
  if (recv.queued_grant != nullptr) recv.queued_grant->recv = nullptr;
  peer(recv.peer).recvs.erase(&recv);
  recvs.give(&recv);
}

void Links::State::settle(Recv& recv) {
  if (recv.done && recv.busy == 0 && (!recv.expects_announce || recv.announced)) drop(recv);
}

void Links::State::consume(Peer& p, uint32_t comm, uint32_t length) {
  CommState* state = known(p, comm);
  if (state == nullptr) return;
  state->consumed += eager_cost(length);
  const uint32_t untold = state->consumed - state->told;
  if (untold >= options.eager_bytes / 4 * 3) {
    return_credit(p, *state);
  } else if (untold >= options.eager_bytes / 2) {
    p.credit_held = true;
  }
}

// In a frame of its own.
void Links::State::return_credit(Peer& p, CommState& comm) {
  if (comm.credit_queued) return;
  comm.credit_queued = true;
  Key key;
  key.comm = comm.comm;
  key.cls = Class::kControl;
  control(p, FrameKind::kCredit, key);
}

// Half of the credit went back in no header of the round before: nothing else may be under way.
void Links::State::return_held_credit(Peer& p) {
  p.credit_held = false;
  for (const auto& comm : p.comms) {
    if (comm->consumed - comm->told >= options.eager_bytes / 2) return_credit(p, *comm);
  }
}

void Links::State::count_eager(Peer& p, const Header& header) {
  if (CommState* comm = known(p, header.key.comm)) comm->arrived += eager_cost(header.length);
}

void Links::State::clear_early(Recv& recv) {
  while (EarlyFrame* early = recv.early.pop_front()) {
    buffers.give(early->data, early->length);
    consume(peer(recv.peer), recv.key.comm, early->length);
    early_frames.give(early);
  }
}

void Links::State::mismatch(Recv& recv) {
  if (recv.mismatched) return;
  recv.mismatched = true;
  Peer& p = peer(recv.peer);
  clear_early(recv);
  Frame* frame = control(p, FrameKind::kGrant, recv.key);  // so that the other side sees it too
  frame->header.flags = kFlagMismatch;
  frame->header.total = recv.total;
  frame->header.fingerprint = recv.fingerprint;
  mismatches.push_back({&p, recv.key, nullptr, &recv});
}

bool Links::State::compare(Recv& recv) {
  if (!recv.posted || !recv.peer_known) return true;
  if (recv.peer_total == recv.total && recv.peer_fingerprint == recv.fingerprint) return true;
  mismatch(recv);
  return false;
}

// Tells the sender how far it may go. Small messages need no grant unless the sender asks.
void Links::State::grant(Recv& recv) {
  if (!recv.posted || recv.mismatched) return;
  if (recv.total <= options.small_bytes() && !recv.wants_grant) return;
  if (recv.granted <= recv.grant_sent && !(recv.total == 0 && recv.grants == 0)) return;
  recv.grant_sent = recv.granted;
  if (recv.queued_grant == nullptr) {
    recv.queued_grant = control(peer(recv.peer), FrameKind::kGrant, recv.key);
    recv.queued_grant->recv = &recv;
    recv.queued_grant->header.ordinal = ++recv.grants;
    recv.queued_grant->header.total = recv.total;
    recv.queued_grant->header.fingerprint = recv.fingerprint;
  }
  recv.queued_grant->header.offset = recv.granted;
}

void Links::State::on_announce(Peer& p, const Header& header) {
  if (removed(header.key.comm)) return;
  Recv* recv = p.recvs.find(header.key);
  if (recv == nullptr) {
    recv = recvs.take();
    recv->key = header.key;
    recv->peer = p.rank;
    p.recvs.insert(recv);
  }
  recv->announced = true;
  if (recv->withdrawn) return;
  if (recv->done) {
    settle(*recv);
    return;
  }
  recv->peer_known = true;
  recv->peer_total = header.total;
  recv->peer_fingerprint = header.fingerprint;
  if (header.total <= options.small_bytes()) recv->wants_grant = true;
  if (recv->posted) {
    if (compare(*recv)) grant(*recv);
  } else if (recv->key.cls == Class::kPointToPoint && !recv->told) {
    recv->told = true;
    client.unexpected(p.rank, header.key, header.total, header.fingerprint);
  }
}

// The message that a data frame belongs to; it is made if it is not known. `discard`: the payload
// is not wanted (any more). `error`: the peer may not send this.
Recv* Links::State::route(Peer& p, const Header& h, bool* discard, const char** error) {
  const bool eager = (h.flags & kFlagEager) != 0;
  *discard = removed(h.key.comm);
  if (*discard) return nullptr;
  if (eager) {
    const CommState& comm = comm_of(p, h.key.comm);
    if (comm.arrived - comm.consumed + eager_cost(h.length) > options.eager_bytes) {
      *error = "it sent more eager data than it has credit for";
      return nullptr;
    }
  }
  Recv* recv = p.recvs.find(h.key);
  if (recv == nullptr) {
    if (!eager) {
      *error = "it sent data that was not granted";
      return nullptr;
    }
    recv = recvs.take();
    recv->key = h.key;
    recv->peer = p.rank;
    p.recvs.insert(recv);
  }
  if (recv->withdrawn || recv->mismatched) {
    *discard = true;
    return recv;
  }
  if (recv->peer_known &&
      (recv->peer_total != h.total || recv->peer_fingerprint != h.fingerprint)) {
    *error = "frames of one message contradict each other";
    return nullptr;
  }
  recv->peer_known = true;
  recv->peer_total = h.total;
  recv->peer_fingerprint = h.fingerprint;
  if ((h.flags & kFlagAnnounced) != 0) recv->expects_announce = true;
  if (!compare(*recv)) {
    *discard = true;
    return recv;
  }
  if (recv->done || recv->received + (h.length - p.reported[h.sequence % kWindow]) > h.total) {
    *error = "it sent more of a message than there is";
  } else if (!eager && (!recv->posted || h.offset + h.length > recv->granted)) {
    *error = "it sent data that was not granted";
  }
  return recv;
}

// The one place that tells the client of bytes. The recv may be gone afterwards; false says so.
bool Links::State::report(Recv& recv, uint64_t offset, uint32_t length, const std::byte* data) {
  recv.received += length;
  const bool last = recv.received == recv.total;
  if (last) {
    recv.posted = false;
    recv.done = true;
  }
  ++recv.busy;
  client.arrived(recv.owner, recv.index, offset, length, data, last);
  --recv.busy;
  if (last) {
    settle(recv);
    return false;
  }
  if (!recv.posted) return false;  // withdrawn inside the callback
  return recv.busy > 0 || recv.early.empty() || hand_over(recv);
}

// Early frames, as far as they lie within the granted prefix.
bool Links::State::hand_over(Recv& recv) {
  if (recv.busy > 0 || !recv.posted) return recv.posted;
  ++recv.busy;
  EarlyFrame* early = recv.early.front();
  while (early != nullptr && recv.posted && !recv.mismatched) {
    const uint64_t end = early->offset + early->length;
    uint64_t upto = std::min(recv.granted, end);
    if (upto < end) upto -= upto % recv.unit;
    const uint64_t from = early->offset + early->handed;
    if (upto <= from && early->length > 0) {
      early = early->next;
      continue;
    }
    const auto length = static_cast<uint32_t>(upto - from);
    const std::byte* data = early->length > 0 ? early->data + early->handed : nullptr;
    early->handed += length;
    if (early->handed < early->length) {
      report(recv, from, length, data);
      // An extension inside the callback may have made more of it deliverable.
      continue;
    }
    recv.early.remove(early);
    Peer& p = peer(recv.peer);
    const uint32_t comm = recv.key.comm;
    report(recv, from, length, data);
    buffers.give(early->data, early->length);
    consume(p, comm, early->length);
    early_frames.give(early);
    early = recv.early.front();
  }
  --recv.busy;
  const bool alive = recv.posted;
  settle(recv);
  return alive;
}

// Takes over `buffer`.
void Links::State::store_early(Recv& recv, const Header& header, std::byte* buffer) {
  EarlyFrame* early = early_frames.take();
  early->data = buffer;
  early->offset = header.offset;
  early->length = header.length;
  recv.early.push_back(early);
  if (recv.posted) {
    hand_over(recv);
  } else if (recv.key.cls == Class::kPointToPoint && !recv.told) {
    recv.told = true;
    client.unexpected(recv.peer, recv.key, header.total, header.fingerprint);
  }
}

// After this nothing writes to the message's memory. The gravestone makes what still comes known.
void Links::State::withdraw(Recv& recv) {
  Peer& p = peer(recv.peer);
  std::erase_if(mismatches, [&](const Mismatch& m) { return m.recv == &recv; });
  for (Trunk* trunk : p.trunks) {
    if (!trunk->incoming.active || trunk->incoming.recv != &recv) continue;
    // Its end will not be reported any more: to the sender it has arrived.
    const Header header = trunk->incoming.header;
    redirect(*trunk);
    note_arrival(p, *trunk, header);
    if ((header.flags & kFlagEager) != 0) {
      count_eager(p, header);
      consume(p, header.key.comm, header.length);
    }
  }
  clear_early(recv);
  if (recv.queued_grant != nullptr) recv.queued_grant->recv = nullptr;
  recv.queued_grant = nullptr;
  recv.posted = false;
  recv.withdrawn = true;
}

}  // namespace tbccl::link
