// Acknowledgements: what the peer says of our frames, and what we say of its.
#include <algorithm>

#include "link/state.h"

namespace tbccl::link {

// Frees a frame that is in no list.
void Links::State::release_frame(Frame* frame) {
  Send* send = frame->send;
  if (frame->recv != nullptr) frame->recv->queued_grant = nullptr;
  if (frame->copied) copied -= frame->header.length;
  if (frame->copy != nullptr) buffers.give(frame->copy, frame->header.length);
  frames.give(frame);
  if (send != nullptr) {
    --send->outstanding;
    finish(*send);
  }
}

void Links::State::acknowledge(Peer& peer, Frame& frame) {
  peer.window[frame.header.sequence % kWindow] = nullptr;
  Trunk* trunk = frame.trunk;
  if (trunk == nullptr) {  // waits to be sent again, needlessly
    peer.requeued.remove(&frame);
    release_frame(&frame);
    return;
  }
  trunk->acked_at = now();
  trunk->suspect = false;
  trunk->inflight_bytes -= frame.header.length;
  if (frame.tries == 1) measure(*trunk, frame);
  const uint16_t number = frame.number;
  if (frame.held) {
    frame.acked = true;
  } else {
    trunk->inflight.remove(&frame);
    release_frame(&frame);
  }
  if (!trunk->context->properties.reliable) find_lost(*trunk, number);
}

// The trunk keeps the order: what was sent well before an acknowledged frame has been lost.
void Links::State::find_lost(Trunk& trunk, uint16_t acked_number) {
  if (!trunk.context->properties.ordered) return;
  bool lost = false;
  while (Frame* frame = trunk.inflight.front()) {
    if (frame->acked || frame->held) break;
    if (static_cast<int16_t>(acked_number - frame->number) < 3) break;
    requeue(*trunk.peer, *frame);
    lost = true;
  }
  if (lost) trunk.narrow = kNarrowFrames;
}

// From its trunk back into the queue. The transport has no hold on it.
void Links::State::requeue(Peer& peer, Frame& frame) {
  Trunk& trunk = *frame.trunk;
  trunk.inflight.remove(&frame);
  trunk.inflight_bytes -= frame.header.length;
  ++trunk.counters.retransmitted;
  frame.trunk = nullptr;
  peer.requeued.push_back(&frame);
}

const char* Links::State::on_ack(Peer& peer, const Header& header) {
  if (after(header.ack, peer.next_sequence - 1))
    return "it acknowledges a frame that was never sent";
  bool any = false;
  // Releasing may make the client post and send more, but never moves what is in the window.
  while (after(header.ack, peer.acked)) {
    Frame* frame = peer.window[++peer.acked % kWindow];
    if (frame != nullptr) acknowledge(peer, *frame);
    any = true;
  }
  if (header.kind == FrameKind::kAck) {
    for (uint32_t i = 0; i < kWindow; ++i) {
      if ((header.bitmap[i / 64] >> (i % 64) & 1) == 0) continue;
      const uint32_t sequence = header.ack + 1 + i;
      if (after(sequence, peer.next_sequence - 1))
        return "it acknowledges a frame that was never sent";
      Frame* frame = peer.window[sequence % kWindow];
      if (frame == nullptr || frame->header.sequence != sequence) continue;
      acknowledge(peer, *frame);
      any = true;
    }
  }
  if (any) pump(peer);
  return nullptr;
}

// A frame with a sequence has arrived in full.
void Links::State::note_arrival(Peer& peer, const Trunk& trunk, const Header& header) {
  const uint32_t i = header.sequence % kWindow;
  peer.beyond[i / 64] |= uint64_t{1} << (i % 64);
  peer.reported[i] = 0;
  if (after(header.sequence, peer.highest)) peer.highest = header.sequence;
  for (uint32_t next = (peer.arrived + 1) % kWindow;
       (peer.beyond[next / 64] >> (next % 64) & 1) != 0; next = (next + 1) % kWindow) {
    peer.beyond[next / 64] &= ~(uint64_t{1} << (next % 64));
    ++peer.arrived;
  }
  ++peer.ack_frames;
  peer.ack_bytes += header.length;
  if (peer.ack_due == kNever) {
    peer.ack_due = now() + kAckDelay;
    arm(peer.ack_due);
  }
  if ((header.flags & kFlagAckNow) != 0 &&
      (!peer.ack_wanted || after(header.sequence, peer.ack_wanted_sequence))) {
    peer.ack_wanted = true;
    peer.ack_wanted_sequence = header.sequence;
  }
  // Where frames get lost, a gap is news.
  if (!trunk.context->properties.reliable && peer.has_gap()) peer.ack_now = true;
}

bool Links::State::ack_is_due(const Peer& peer) const {
  return peer.ack_now || peer.ack_frames >= kAckFrames || peer.ack_bytes >= kAckBytes ||
         (peer.ack_wanted && !after(peer.ack_wanted_sequence, peer.arrived));
}

void Links::State::send_ack_if_due(Peer& peer) {
  if (!ack_is_due(peer)) return;
  Trunk* trunk = peer.heard_on != nullptr && peer.heard_on->up() ? peer.heard_on : nullptr;
  if (trunk == nullptr || trunk->blocked) {
    for (Trunk* other : peer.trunks) {
      if (other->up() && !other->blocked) trunk = other;
    }
  }
  if (trunk != nullptr && !trunk->blocked) send_ack(peer, *trunk, false);
}

void Links::State::send_ack(Peer& peer, Trunk& trunk, bool probe) {
  Header header;
  header.kind = FrameKind::kAck;
  header.flags = probe ? kFlagAckNow : 0;
  header.epoch = trunk.epoch;
  header.number = trunk.next_number;
  header.ack = peer.arrived;
  for (uint32_t i = 0; i + 1 < kWindow; ++i) {
    const uint32_t at = (peer.arrived + 1 + i) % kWindow;
    header.bitmap[i / 64] |= (peer.beyond[at / 64] >> (at % 64) & 1) << (i % 64);
  }
  CommState* comm = nullptr;  // the one with most news
  for (auto& candidate : peer.comms) {
    if (comm == nullptr || candidate->consumed - candidate->told > comm->consumed - comm->told) {
      comm = candidate.get();
    }
  }
  if (comm != nullptr) {
    header.key.comm = comm->comm;
    header.credit = comm->consumed;
  }
  HeaderBytes bytes;
  encode(header, &bytes);
  if (!trunk.context->properties.reliable) set_checksum(&bytes, checksum(bytes.data(), nullptr, 0));
  const auto code = trunk.context->transport->send(trunk.context->handle, trunk.handle,
                                                   bytes.data(), nullptr, 0, 0);
  if (code == TBCCL_AGAIN) trunk.blocked = true;
  if (code != TBCCL_OK) return;
  ++trunk.next_number;
  ++trunk.counters.frames_sent;
  if (comm != nullptr) comm->told = comm->consumed;
  peer.ack_frames = 0;
  peer.ack_bytes = 0;
  peer.ack_due = kNever;
  peer.ack_now = false;
  if (peer.ack_wanted && !after(peer.ack_wanted_sequence, peer.arrived)) peer.ack_wanted = false;
}

}  // namespace tbccl::link
