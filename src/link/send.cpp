// Messages that leave: eager frames, granted segments, credit.
#include <algorithm>
#include <cstring>

#include "link/state.h"

namespace tbccl::link {

// A frame without payload, at the end of the queue.
Frame* Links::State::control(Peer& peer, FrameKind kind, const Key& key) {
  Frame* frame = frames.take();
  frame->header.kind = kind;
  frame->header.key = key;
  peer.queued.push_back(frame);
  return frame;
}

void Links::State::drop(Send& send) {
  Peer& p = peer(send.peer);
  p.sends.erase(&send);
  sends.give(&send);
}

void Links::State::make_ready(Send& send) {
  if (send.in != Send::In::kNone) return;
  send.in = Send::In::kReady;
  // The earlier step of the earlier operation goes first: later ones may depend on it, here or at
  // the peer, and one that is granted bit by bit must not find itself behind a long one each time.
  List<Send>& ready = peer(send.peer).ready;
  Send* before = ready.back();
  while (before != nullptr && before->order > send.order) before = before->previous;
  ready.insert_after(before, &send);
}

void Links::State::announce(Send& send) {
  if (send.announced) return;
  send.announced = true;
  Frame* frame = control(peer(send.peer), FrameKind::kAnnounce, send.key);
  frame->header.total = send.total;
  frame->header.fingerprint = send.fingerprint;
}

// Bytes that may go without a grant become frames with copies, as far as the credit reaches. A
// small message goes whole or waits for credit, and after a while asks for a grant instead; of a
// large one, whose grant comes unasked, the beginning goes.
bool Links::State::feed(Send& send) {
  if (!send.posted || send.mismatched) return true;
  Peer& p = peer(send.peer);
  const bool small = send.total <= options.small_bytes();
  while ((send.sent < send.available && send.sent >= send.granted) ||
         (send.total == 0 && !send.begun)) {
    if (send.wants_grant || send.in == Send::In::kStarved) break;
    CommState& comm = comm_of(p, send.key.comm);
    const uint32_t used = comm.sent - comm.sent_consumed;
    const uint32_t credit = options.eager_bytes > used ? options.eager_bytes - used : 0;
    uint64_t length = std::min<uint64_t>(send.available - send.sent, segment(p, send.total));
    if (small && eager_cost(send.available - send.sent) > credit) {
      send.in = Send::In::kStarved;
      if (comm.starved.empty()) comm.starved_since = now();
      comm.starved.push_back(&send);
      arm(now() + kStarvedDelay);
      break;
    }
    if (!small) {
      const uint64_t head = options.eager_bytes / 4 / 64 * 64;
      const uint64_t most =
          std::min<uint64_t>(credit / 2, head - std::min(head, send.sent)) / 64 * 64;
      length = std::min(length, most);
      if (length == 0) break;
    }
    Frame* frame = control(p, FrameKind::kData, send.key);
    frame->header.flags = kFlagEager | (send.announced ? kFlagAnnounced : 0);
    frame->header.offset = send.sent;
    frame->header.length = static_cast<uint32_t>(length);
    frame->header.total = send.total;
    frame->header.fingerprint = send.fingerprint;
    if (length > 0) {
      frame->copy = buffers.take(length);
      std::memcpy(frame->copy, send.data + send.sent, length);
      frame->data = frame->copy;
    }
    comm.sent += eager_cost(length);
    send.sent += length;
    send.begun = true;
  }
  if (send.total == 0 && !send.begun && send.final_grant) {
    Frame* frame = control(p, FrameKind::kData, send.key);
    frame->header.flags = kFlagAnnounced;
    frame->header.fingerprint = send.fingerprint;
    send.begun = true;
  }
  if (send.sent < std::min(send.available, send.granted)) make_ready(send);
  return finish(send);
}

bool Links::State::finish(Send& send) {
  if (!send.posted || send.mismatched || send.sent < send.total || send.outstanding > 0 ||
      (send.total == 0 && !send.begun)) {
    return true;
  }
  void* owner = send.owner;
  const uint32_t index = send.index;
  // Grants that are still under way would look like grants of a message yet to come.
  if (send.final_grant && send.grants_seen != send.grants_final) {
    send.posted = false;
    send.ghost = true;
    send.data = nullptr;
  } else {
    drop(send);
  }
  client.released(owner, index);
  return false;
}

bool Links::State::pump(Peer& p) {
  if (p.pumping || p.failed) return false;
  p.pumping = true;
  p.throttled = false;
  bool moved = false;
  while (pump_one(p)) moved = true;
  p.pumping = false;
  return moved;
}

bool Links::State::pump_one(Peer& p) {
  if (Frame* frame = p.requeued.front()) {
    Trunk* trunk = choose(p, frame->header.length);
    if (trunk == nullptr) return false;
    p.requeued.remove(frame);
    transmit(*trunk, *frame);
    return true;
  }
  if (Frame* frame = p.queued.front()) {
    if (p.outstanding() >= kWindow) return false;
    Trunk* trunk = choose(p, frame->header.length);
    if (trunk == nullptr) return false;
    p.queued.remove(frame);
    if (frame->recv != nullptr) {
      frame->recv->queued_grant = nullptr;
      frame->recv = nullptr;
    }
    if (frame->header.kind == FrameKind::kCredit) {
      if (CommState* comm = known(p, frame->header.key.comm)) comm->credit_queued = false;
    }
    frame->header.sequence = p.next_sequence++;
    p.window[frame->header.sequence % kWindow] = frame;
    transmit(*trunk, *frame);
    return true;
  }
  Send* send = p.ready.front();
  if (send == nullptr || p.outstanding() >= kDataWindow) return false;
  const uint64_t limit = std::min(send->available, send->granted);
  const auto length =
      static_cast<uint32_t>(std::min<uint64_t>(limit - send->sent, segment(p, send->total)));
  Trunk* trunk = choose(p, length);
  if (trunk == nullptr) return false;
  p.throttled = !may_hold(*trunk, length);
  if (p.throttled) return false;
  Frame* frame = frames.take();
  frame->header.kind = FrameKind::kData;
  frame->header.key = send->key;
  frame->header.offset = send->sent;
  frame->header.length = length;
  frame->header.total = send->total;
  frame->header.fingerprint = send->fingerprint;
  if (send->announced) frame->header.flags |= kFlagAnnounced;
  frame->data = send->data + send->sent;
  const bool copy = send->total <= kCopyBelow && copied + length <= kCopyMost;
  if (copy) {
    frame->copied = true;
    frame->copy = buffers.take(length);
    std::memcpy(frame->copy, frame->data, length);
    frame->data = frame->copy;
    copied += length;
  } else {
    frame->send = send;
    ++send->outstanding;
  }
  send->begun = true;
  send->sent += length;
  // Somebody waits for the release of the whole message.
  if (send->sent == send->total && send->outstanding > 0) frame->header.flags |= kFlagAckNow;
  if (send->sent == limit) {
    p.ready.remove(send);
    send->in = Send::In::kNone;
  }
  frame->header.sequence = p.next_sequence++;
  p.window[frame->header.sequence % kWindow] = frame;
  transmit(*trunk, *frame);
  if (copy) finish(*send);
  return true;
}

// Gives the frame to the transport. If the trunk does not take it, it is requeued.
void Links::State::transmit(Trunk& trunk, Frame& frame) {
  Peer& p = *trunk.peer;
  Header& header = frame.header;
  const CommState* before = known(p, header.key.comm);
  header.epoch = trunk.epoch;
  header.number = frame.number = trunk.next_number;
  header.ack = p.arrived;
  header.credit = before != nullptr ? before->consumed : 0;
  HeaderBytes bytes;
  encode(header, &bytes);
  if (!trunk.context->properties.reliable) {
    set_checksum(&bytes, checksum(bytes.data(), frame.data, header.length));
  }
  const uint64_t time = now();
  if (trunk.inflight_bytes == 0) {
    trunk.rate_since = time;
    trunk.rate_bytes = 0;
    trunk.rate_settled = false;
    trunk.acked_at = time;
  }
  frame.trunk = &trunk;
  frame.held = true;
  frame.sent_at = time;
  if (frame.tries < 255) ++frame.tries;
  trunk.inflight.push_back(&frame);
  trunk.inflight_bytes += header.length;
  trunk.held_bytes += header.length;
  const auto code =
      trunk.context->transport->send(trunk.context->handle, trunk.handle, bytes.data(), frame.data,
                                     header.length, reinterpret_cast<uint64_t>(&frame));
  if (code == TBCCL_FAILED) return;  // down() has requeued it already
  if (code == TBCCL_AGAIN) {
    trunk.blocked = true;
    trunk.inflight.remove(&frame);
    trunk.inflight_bytes -= header.length;
    trunk.held_bytes -= header.length;
    frame.trunk = nullptr;
    frame.held = false;
    --frame.tries;
    p.requeued.push_front(&frame);
    return;
  }
  ++trunk.next_number;
  ++trunk.counters.frames_sent;
  trunk.counters.payload_sent += header.length;
  if (CommState* comm = known(p, header.key.comm)) comm->told = header.credit;
  if (!p.has_gap()) {  // the header said all there was to say
    p.ack_frames = 0;
    p.ack_bytes = 0;
    p.ack_due = kNever;
    p.ack_wanted = false;
    p.ack_now = false;
  }
  const double retransmit = std::max<double>(kMinRetransmit, trunk.rtt + 4 * trunk.rtt_deviation);
  arm(time +
      (trunk.context->properties.reliable ? kMinSilence / 2 : static_cast<uint64_t>(retransmit)));
}

void Links::State::on_grant(Peer& p, const Header& header) {
  if (removed(header.key.comm)) return;
  Send* send = p.sends.find(header.key);
  const bool differs = (header.flags & kFlagMismatch) != 0;
  if (send == nullptr) {
    if (differs) return;  // of a message that has left already
    send = sends.take();
    send->key = header.key;
    send->peer = p.rank;
    send->total = header.total;
    send->fingerprint = header.fingerprint;
    p.sends.insert(send);
  }
  if (send->posted &&
      (differs || send->total != header.total || send->fingerprint != header.fingerprint)) {
    mismatch(*send);
    return;
  }
  ++send->grants_seen;
  send->granted = std::max(send->granted, header.offset);
  if (header.offset == header.total) {
    send->final_grant = true;
    send->grants_final = header.ordinal;
  }
  if (send->ghost) {
    if (send->final_grant && send->grants_seen == send->grants_final) drop(*send);
    return;
  }
  if (!send->posted) return;
  if (send->in == Send::In::kStarved) {
    comm_of(p, send->key.comm).starved.remove(send);
    send->in = Send::In::kNone;
  }
  if (feed(*send)) pump(p);
}

void Links::State::on_credit(Peer& p, uint32_t comm, uint32_t credit) {
  if (removed(comm)) return;
  CommState& state = comm_of(p, comm);
  // Old news, or a number that was never sent, changes nothing.
  if (!after(credit, state.sent_consumed) || after(credit, state.sent)) return;
  state.sent_consumed = credit;
  if (!state.starved.empty()) {
    feed_starved(state);
    pump(p);
  }
}

// In the order of posting, as far as the credit reaches.
void Links::State::feed_starved(CommState& comm) {
  while (Send* send = comm.starved.front()) {
    const uint32_t used = comm.sent - comm.sent_consumed;
    if (eager_cost(send->available - send->sent) + used > options.eager_bytes) return;
    comm.starved.remove(send);
    send->in = Send::In::kNone;
    feed(*send);
  }
}

// Credit does not come: the receiver may be waiting for just these.
void Links::State::ask_for_grants(CommState& comm) {
  while (Send* send = comm.starved.pop_front()) {
    send->in = Send::In::kNone;
    send->wants_grant = true;
    announce(*send);
  }
}

// Told at the next safe point, so that the client may do anything then.
void Links::State::mismatch(Send& send) {
  if (send.mismatched) return;
  send.mismatched = true;
  Peer& p = peer(send.peer);
  if (send.in == Send::In::kReady) p.ready.remove(&send);
  if (send.in == Send::In::kStarved) comm_of(p, send.key.comm).starved.remove(&send);
  send.in = Send::In::kNone;
  announce(send);  // so that the other side sees it too
  mismatches.push_back({&p, send.key, &send, nullptr});
}

// After this nothing reads the message's memory: what a transport still holds is taken back by
// closing its trunk, and what must be sent again is replaced by empty frames.
void Links::State::withdraw(Send& send) {
  Peer& p = peer(send.peer);
  if (send.in == Send::In::kReady) p.ready.remove(&send);
  if (send.in == Send::In::kStarved) comm_of(p, send.key.comm).starved.remove(&send);
  send.in = Send::In::kNone;
  send.posted = false;
  std::erase_if(mismatches, [&](const Mismatch& m) { return m.send == &send; });
  if (send.outstanding > 0) {
    for (Trunk* trunk : p.trunks) {
      bool held = false;
      for (Frame* f = trunk->inflight.front(); f != nullptr; f = f->next) {
        held = held || (f->send == &send && f->held);
      }
      if (held)
        trunk_lost(*trunk, false, false, "a message was withdrawn in the middle of a frame");
    }
    const auto cancel = [&](Frame* f) {
      if (f->send != &send) return;
      if (f->trunk != nullptr) f->trunk->inflight_bytes -= f->header.length;
      f->header.kind = FrameKind::kCancelled;
      f->header.length = 0;
      f->data = nullptr;
      f->send = nullptr;
    };
    for (Frame* f = p.requeued.front(); f != nullptr; f = f->next) cancel(f);
    for (Trunk* trunk : p.trunks) {
      for (Frame* f = trunk->inflight.front(); f != nullptr; f = f->next) cancel(f);
    }
  }
  drop(send);
  pump(p);
}

}  // namespace tbccl::link
