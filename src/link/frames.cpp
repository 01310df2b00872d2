// Frames that arrive, in the shapes of the transports: placed while they are read, or whole.
#include <algorithm>
#include <cstring>

#include "link/state.h"

namespace tbccl::link {

// Checks the header and takes what every header carries. False: nothing more to do with the frame.
bool Links::State::open_header(Trunk& trunk, const void* bytes, uint32_t length, Header* header) {
  Peer& p = *trunk.peer;
  const char* error = decode(bytes, header);
  if (error == nullptr && header->length != length) error = "its length is not that of its payload";
  if (error == nullptr && header->epoch != trunk.epoch) {
    if (!trunk.context->properties.ordered) return false;  // of an earlier connection
    error = "it belongs to another connection";
  }
  if (error == nullptr && header->kind != FrameKind::kAck &&
      after(header->sequence, p.arrived + kWindow)) {
    error = "its sequence is beyond the window";
  }
  if (error == nullptr && (p.recvs.size() >= kMaxEarly || p.sends.size() >= kMaxEarly) &&
      p.recvs.find(header->key) == nullptr && p.sends.find(header->key) == nullptr) {
    error = "it names more messages than can be remembered";
  }
  if (error == nullptr && p.comms.size() >= kMaxComms && !removed(header->key.comm) &&
      std::none_of(p.comms.begin(), p.comms.end(),
                   [&](const auto& comm) { return comm->comm == header->key.comm; })) {
    error = "it names more communicators than can be remembered";
  }
  if (error != nullptr) {
    protocol_error(trunk, error);
    return false;
  }
  trunk.heard_at = now();
  trunk.probed_at = 0;
  p.heard_on = &trunk;
  ++trunk.counters.frames_received;
  trunk.counters.payload_received += length;
  const uint64_t changed = trunk.changed;
  error = on_ack(p, *header);
  if (error != nullptr) {
    protocol_error(trunk, error);
    return false;
  }
  if (changed != trunk.changed) return false;
  on_credit(p, header->key.comm, header->credit);
  return changed == trunk.changed;
}

// The link's side of giving up the frame that is being read.
void Links::State::abandon_incoming(Trunk& trunk) {
  Incoming& in = trunk.incoming;
  if (in.active && in.buffer != nullptr) buffers.give(in.buffer, in.header.length);
  in = Incoming{};
}

void Links::State::redirect(Trunk& trunk) {
  trunk.context->transport->redirect(trunk.context->handle, trunk.handle);
  abandon_incoming(trunk);
}

namespace {

// The same frame may be half-read on another trunk, whose loss only the sender knows of yet.
Trunk* also_reading(const Trunk& trunk, uint32_t sequence) {
  for (Trunk* other : trunk.peer->trunks) {
    if (other != &trunk && other->incoming.active && other->incoming.header.sequence == sequence) {
      return other;
    }
  }
  return nullptr;
}

}  // namespace

void* Links::State::place(Trunk& trunk, const void* bytes, uint32_t length) {
  Peer& p = *trunk.peer;
  Incoming& in = trunk.incoming;
  in = Incoming{};
  Header header;
  if (!trunk.context->properties.reliable) {
    // Nothing in it may be believed before all of it is there.
    in.to = Incoming::To::kVerify;
    std::memcpy(in.raw.data(), bytes, in.raw.size());
    in.header.length = length;
    in.buffer = in.data = buffers.take(length);
    in.active = true;
    return in.data;
  }
  if (!open_header(trunk, bytes, length, &header)) return nullptr;
  if (p.seen(header.sequence)) {
    ++trunk.counters.duplicates;
    p.ack_now = true;
    return nullptr;
  }
  if (Trunk* other = also_reading(trunk, header.sequence)) redirect(*other);
  bool discard = false;
  const char* error = nullptr;
  Recv* recv = route(p, header, &discard, &error);
  if (error != nullptr) {
    protocol_error(trunk, error);
    return nullptr;
  }
  in.active = true;
  in.header = header;
  in.recv = recv;
  if (discard) {
    in.to = Incoming::To::kNowhere;
    return nullptr;
  }
  if (!recv->posted || header.offset + length > recv->granted) {
    in.to = Incoming::To::kReserve;
    in.buffer = in.data = buffers.take(length);
    return in.data;
  }
  in.to = Incoming::To::kClient;
  if (p.reported[header.sequence % kWindow] == 0) {
    in.data = client.place(recv->owner, recv->index, header.offset, length, trunk.number);
  }
  if (in.data == nullptr) {
    // The client has had part of this frame already, and may have used the place since.
    in.to = Incoming::To::kStaging;
    in.buffer = in.data = buffers.take(length);
  }
  return in.data;
}

void Links::State::progress(Trunk& trunk, const void* bytes, uint32_t there, uint32_t length) {
  Peer& p = *trunk.peer;
  Incoming& in = trunk.incoming;
  if (length == 0) {
    Header header;
    if (!trunk.context->properties.reliable) {
      deliver(trunk, bytes, nullptr, 0);
    } else if (open_header(trunk, bytes, 0, &header)) {
      take_whole(trunk, header, nullptr);
    }
    return;
  }
  if (!in.active) return;
  const Header header = in.header;
  Recv* recv = in.recv;
  std::byte* data = in.data;
  uint32_t& reported = p.reported[header.sequence % kWindow];
  const bool incremental = in.to == Incoming::To::kClient || in.to == Incoming::To::kStaging;
  if (there < length) {
    if (!incremental) return;
    const uint64_t end = header.offset + there;
    const uint64_t upto = end - end % recv->unit;
    const uint64_t from = header.offset + reported;
    if (upto <= from) return;
    const auto fresh = static_cast<uint32_t>(upto - from);
    const uint32_t at = reported;
    reported += fresh;
    report(*recv, from, fresh, data + at);
    return;
  }
  if (in.to == Incoming::To::kVerify) {
    const auto raw = in.raw;
    in.active = false;
    deliver(trunk, raw.data(), data, length);
    buffers.give(data, length);
    return;
  }
  const Incoming::To to = in.to;
  std::byte* buffer = in.buffer;
  const uint32_t at = reported;
  in.active = false;
  note_arrival(p, trunk, header);
  const bool eager = (header.flags & kFlagEager) != 0;
  if (eager) count_eager(p, header);
  if (to == Incoming::To::kReserve) {
    store_early(*recv, header, buffer);
    return;
  }
  if (eager) consume(p, header.key.comm, length);
  if (incremental && length > at) report(*recv, header.offset + at, length - at, data + at);
  if (to == Incoming::To::kStaging) buffers.give(buffer, length);
}

void Links::State::deliver(Trunk& trunk, const void* bytes, const void* payload, uint32_t length) {
  Header header;
  if (!trunk.context->properties.reliable) {
    // A damaged frame is a lost one.
    if (decode(bytes, &header) != nullptr || checksum(bytes, payload, length) != header.crc) return;
  }
  if (open_header(trunk, bytes, length, &header)) {
    take_whole(trunk, header, static_cast<const std::byte*>(payload));
  }
}

// A frame whose payload is all there, valid during the call.
void Links::State::take_whole(Trunk& trunk, const Header& header, const std::byte* payload) {
  Peer& p = *trunk.peer;
  if (header.kind == FrameKind::kAck) {
    if ((header.flags & kFlagAckNow) != 0) send_ack(p, trunk, false);
    return;
  }
  if (p.seen(header.sequence)) {
    ++trunk.counters.duplicates;
    p.ack_now = true;
    return;
  }
  if (Trunk* other = also_reading(trunk, header.sequence)) redirect(*other);
  if (header.kind != FrameKind::kData) {
    note_arrival(p, trunk, header);
    take_control(trunk, header);
    return;
  }
  bool discard = false;
  const char* error = nullptr;
  Recv* recv = route(p, header, &discard, &error);
  if (error != nullptr) {
    protocol_error(trunk, error);
    return;
  }
  const uint32_t at = p.reported[header.sequence % kWindow];
  note_arrival(p, trunk, header);
  const bool eager = (header.flags & kFlagEager) != 0;
  if (eager) count_eager(p, header);
  const bool placed = !discard && recv->posted && header.offset + header.length <= recv->granted;
  if (!discard && !placed) {
    std::byte* buffer = nullptr;
    if (header.length > 0) {
      buffer = buffers.take(header.length);
      std::memcpy(buffer, payload, header.length);
    }
    store_early(*recv, header, buffer);
    return;
  }
  if (eager) consume(p, header.key.comm, header.length);
  if (placed && (header.length > at || header.total == 0)) {
    report(*recv, header.offset + at, header.length - at,
           payload != nullptr ? payload + at : nullptr);
  }
}

void Links::State::take_control(Trunk& trunk, const Header& header) {
  switch (header.kind) {
    case FrameKind::kGrant:
      on_grant(*trunk.peer, header);
      break;
    case FrameKind::kAnnounce:
      on_announce(*trunk.peer, header);
      break;
    case FrameKind::kCredit:
    case FrameKind::kCancelled:
    case FrameKind::kData:
    case FrameKind::kAck:
      break;  // the header has said it all
  }
}

}  // namespace tbccl::link
