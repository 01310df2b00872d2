// The face of the room: what links.h promises, in terms of what the other files do.
#include "link/links.h"

#include <algorithm>

#include "base/formatted.h"
#include "base/log.h"
#include "link/state.h"

namespace tbccl::link {

Links::State::State(const Options& o, Client& c, Watcher& w) : options(o), client(c), watcher(w) {
  peers.resize(static_cast<size_t>(options.size));
  for (int rank = 0; rank < options.size; ++rank) {
    peers[static_cast<size_t>(rank)] = std::make_unique<Peer>();
    peer(rank).rank = rank;
  }
}

Links::State::~State() {
  for (auto& context : contexts) context->transport->close(context->handle);
}

CommState& Links::State::comm_of(Peer& p, uint32_t comm) {
  for (auto& state : p.comms) {
    if (state->comm != comm) continue;
    std::swap(state, p.comms.front());  // the next frame is probably of the same one
    return *p.comms.front();
  }
  p.comms.push_back(std::make_unique<CommState>());
  p.comms.back()->comm = comm;
  return *p.comms.back();
}

CommState* Links::State::known(Peer& p, uint32_t comm) {
  return removed(comm) ? nullptr : &comm_of(p, comm);
}

bool Links::State::removed(uint32_t comm) const {
  return !removed_comms.empty() &&
         std::binary_search(removed_comms.begin(), removed_comms.end(), comm);
}

// Callbacks after which the client may do anything: made where nothing is half-done.
void Links::State::run_deferred() {
  while (!mismatches.empty()) {
    const Mismatch m = mismatches.front();
    mismatches.erase(mismatches.begin());
    void* owner = m.send != nullptr ? m.send->owner : m.recv->owner;
    const uint32_t index = m.send != nullptr ? m.send->index : m.recv->index;
    client.mismatch(m.peer->rank, m.key, owner, index);
  }
  while (!failures.empty()) {
    const auto [p, status] = failures.front();
    failures.erase(failures.begin());
    client.peer_failed(p->rank, status);
  }
}

Links::Links(const Options& options, Client& client, Watcher& watcher)
    : state_(std::make_unique<State>(options, client, watcher)) {}

Links::~Links() = default;

Status Links::listen(const tbcclTransport_t* transport, const std::string& address,
                     std::vector<std::byte>* handle) {
  Context* context = nullptr;
  if (Status status = state_->context_of(transport, &context); !status.ok()) return status;
  handle->resize(TBCCL_HANDLE_MAX_BYTES);
  size_t bytes = 0;
  char error[512] = "";
  if (transport->listen(context->handle, address.c_str(), handle->data(), &bytes, error,
                        sizeof error) != TBCCL_OK) {
    return {tbcclSystemError,
            formatted("transport {} cannot listen at {}: {}", transport->name, address, error)};
  }
  handle->resize(bytes);
  return {};
}

Status Links::add_trunk(const TrunkSpec& spec) {
  State& s = *state_;
  if (spec.peer < 0 || spec.peer >= s.options.size || spec.peer == s.options.rank) {
    return {tbcclInternalError, formatted("a trunk to rank {} was described on rank {} of {}",
                                          spec.peer, s.options.rank, s.options.size)};
  }
  Peer& p = s.peer(spec.peer);
  for (const Trunk* other : p.trunks) {
    if (other->spec.id == spec.id) {
      return {tbcclInternalError,
              formatted("two trunks to rank {} have number {}", spec.peer, spec.id)};
    }
  }
  Context* context = nullptr;
  if (Status status = s.context_of(spec.transport, &context); !status.ok()) return status;
  if ((context->properties.shapes & (TBCCL_SHAPE_PLACED | TBCCL_SHAPE_SLOTTED)) == 0) {
    return {tbcclInternalError, formatted("transport {} has no shape of receive that links can use",
                                          spec.transport->name)};
  }
  auto trunk = std::make_unique<Trunk>();
  trunk->peer = &p;
  trunk->context = context;
  trunk->spec = spec;
  trunk->number = static_cast<uint32_t>(s.trunks.size());
  trunk->rate = spec.rate;
  trunk->counters.peer = spec.peer;
  trunk->counters.id = spec.id;
  trunk->counters.name = spec.name;
  if (p.trunks.empty()) {
    s.linked.push_back(&p);
    p.without_since = s.now();
  }
  p.trunks.push_back(trunk.get());
  s.trunks.push_back(std::move(trunk));
  s.schedule_redial(*p.trunks.back());
  s.arm(s.now());
  return {};
}

bool Links::connected(int peer) const {
  const auto& trunks = state_->peer(peer).trunks;
  return std::any_of(trunks.begin(), trunks.end(), [](const Trunk* t) { return t->up(); });
}

bool Links::all_connected() const {
  return std::all_of(state_->trunks.begin(), state_->trunks.end(),
                     [](const auto& t) { return t->up(); });
}

void Links::add_communicator(uint32_t comm) {
  auto& removed = state_->removed_comms;
  std::erase(removed, comm);
}

void Links::remove_communicator(uint32_t comm) {
  State& s = *state_;
  for (auto& p : s.peers) {
    for (Send* send : p->sends.all()) {
      if (send->key.comm == comm) s.withdraw(*send);
    }
    for (Recv* recv : p->recvs.all()) {
      if (recv->key.comm != comm) continue;
      s.withdraw(*recv);
      s.drop(*recv);
    }
    std::erase_if(p->comms, [&](const auto& state) { return state->comm == comm; });
  }
  auto& removed = s.removed_comms;
  const auto at = std::lower_bound(removed.begin(), removed.end(), comm);
  if (at == removed.end() || *at != comm) removed.insert(at, comm);
}

uint64_t Links::take_turn() { return ++state_->turns; }

Send* Links::post_send(int rank, const SendSpec& spec) {
  State& s = *state_;
  Peer& p = s.peer(rank);
  Send* send = p.sends.find(spec.key);
  const bool early = send != nullptr;  // grants were here first
  const bool differs =
      early && (send->total != spec.total || send->fingerprint != spec.fingerprint);
  if (!early) {
    send = s.sends.take();
    send->key = spec.key;
    send->peer = rank;
    p.sends.insert(send);
  }
  send->posted = true;
  send->order = (spec.turn != 0 ? spec.turn : take_turn()) << kStepBits |
                std::min(spec.step, (1u << kStepBits) - 1);
  send->data = spec.data;
  send->total = spec.total;
  send->available = spec.available;
  send->fingerprint = spec.fingerprint;
  send->owner = spec.owner;
  send->index = spec.index;
  if (differs) {
    s.mismatch(*send);
    s.pump(p);
    return send;
  }
  const bool alive = s.feed(*send);
  if (alive && spec.announce && !send->begun && send->in != Send::In::kReady) {
    if (send->in == Send::In::kStarved) {
      s.comm_of(p, spec.key.comm).starved.remove(send);
      send->in = Send::In::kNone;
      send->wants_grant = true;
    }
    s.announce(*send);
  }
  s.pump(p);
  // Copied into frames, it may be released by now.
  return alive && p.sends.find(spec.key) == send && !send->ghost ? send : nullptr;
}

void Links::extend(Send* send, uint64_t available) {
  State& s = *state_;
  Peer& p = s.peer(send->peer);
  send->available = std::max(send->available, std::min(available, send->total));
  if (send->in == Send::In::kStarved) return;
  s.feed(*send);
  s.pump(p);
}

Recv* Links::post_recv(int rank, const RecvSpec& spec) {
  State& s = *state_;
  Peer& p = s.peer(rank);
  Recv* recv = p.recvs.find(spec.key);
  if (recv == nullptr) {
    recv = s.recvs.take();
    recv->key = spec.key;
    recv->peer = rank;
    p.recvs.insert(recv);
  }
  recv->withdrawn = false;
  recv->posted = true;
  recv->total = spec.total;
  recv->granted = std::min(spec.granted, spec.total);
  recv->fingerprint = spec.fingerprint;
  recv->unit = std::max(spec.unit, 1u);
  recv->owner = spec.owner;
  recv->index = spec.index;
  bool alive = true;
  if (s.compare(*recv)) {
    s.grant(*recv);
    alive = s.hand_over(*recv);
  }
  s.pump(p);
  return alive ? recv : nullptr;
}

void Links::extend(Recv* recv, uint64_t granted) {
  State& s = *state_;
  Peer& p = s.peer(recv->peer);
  recv->granted = std::max(recv->granted, std::min(granted, recv->total));
  s.grant(*recv);
  s.hand_over(*recv);
  s.pump(p);
}

void Links::withdraw(Send* send) { state_->withdraw(*send); }
void Links::withdraw(Recv* recv) { state_->withdraw(*recv); }

bool Links::progress() {
  State& s = *state_;
  bool happened = false;
  for (Peer* p : s.linked) {
    if (p->credit_held) s.return_held_credit(*p);
  }
  for (auto& context : s.contexts) happened |= context->transport->poll(context->handle) > 0;
  if (s.timer_at != kNever && s.now() >= s.timer_at) s.run_timers();
  for (Peer* p : s.linked) {
    s.pump(*p);
    s.send_ack_if_due(*p);
  }
  if (!s.mismatches.empty() || !s.failures.empty()) {
    happened = true;
    s.run_deferred();
  }
  s.flush_transports();
  return happened;
}

bool Links::State::flush_transports() {
  for (int round = 0; round < kFlushRounds; ++round) {
    for (auto& context : contexts) {
      if (context->transport->flush != nullptr) context->transport->flush(context->handle);
    }
    bool more = false;
    for (Peer* p : linked) more |= p->throttled && pump(*p);
    if (!more) return true;
  }
  return false;
}

void Links::flush() {
  State& s = *state_;
  for (Peer* p : s.linked) {
    s.pump(*p);
    // Where nobody waits for it an acknowledgement may wait for company: the next call's first
    // frame mostly. But where trunks share the work, they show how fast they are.
    const uint64_t bytes = p->trunks.size() > 1 ? kAckBytes / 8 : kAckBytes / 4 * 3;
    if (p->ack_wanted || p->ack_frames >= kAckFrames / 4 || p->ack_bytes >= bytes) {
      p->ack_now = true;
    }
    s.send_ack_if_due(*p);
  }
  s.flush_transports();
}

uint64_t Links::next_timer() const { return state_->timer_at; }

bool Links::can_sleep() {
  State& s = *state_;
  if (!s.mismatches.empty() || !s.failures.empty()) return false;
  return s.flush_transports() &&
         std::all_of(s.contexts.begin(), s.contexts.end(),
                     [](const auto& c) { return c->properties.has_descriptors != 0; });
}

void Links::sleeping(bool asleep) {
  for (auto& context : state_->contexts) {
    const auto tell = context->transport->sleeping;
    if (tell != nullptr) tell(context->handle, asleep ? 1 : 0);
  }
}

Trunk* Links::State::shared_trunk(int rank) {
  for (Trunk* trunk : peer(rank).trunks) {
    if (trunk->up() && trunk->context->transport->board != nullptr) return trunk;
  }
  return nullptr;
}

bool Links::board(int rank, tbcclBoard_t* board) {
  const Trunk* trunk = state_->shared_trunk(rank);
  return trunk != nullptr &&
         trunk->context->transport->board(trunk->context->handle, trunk->handle, board) == 1;
}

void Links::ring(int rank) {
  const Trunk* trunk = state_->shared_trunk(rank);
  if (trunk != nullptr) trunk->context->transport->ring(trunk->context->handle, trunk->handle);
}

bool Links::refer(int rank, const void* memory, uint64_t bytes, tbcclReference_t* reference) {
  const Trunk* trunk = state_->shared_trunk(rank);
  return trunk != nullptr && trunk->context->transport->refer(trunk->context->handle, trunk->handle,
                                                              memory, bytes, reference) == TBCCL_OK;
}

const std::byte* Links::reach(int rank, const tbcclReference_t& reference, uint64_t bytes) {
  const Trunk* trunk = state_->shared_trunk(rank);
  if (trunk == nullptr) return nullptr;
  return static_cast<const std::byte*>(
      trunk->context->transport->reach(trunk->context->handle, trunk->handle, &reference, bytes));
}

void Links::peer_finished(int rank) {
  Peer& p = state_->peer(rank);
  p.finished = true;
  for (Trunk* trunk : p.trunks) trunk->redial_at = kNever;
}

void Links::fail_peer(int rank, const Status& status) {
  state_->fail(state_->peer(rank), status, false);
}

std::vector<TrunkCounters> Links::counters() const {
  std::vector<TrunkCounters> all;
  for (const auto& trunk : state_->trunks) all.push_back(trunk->counters);
  return all;
}

std::string Links::describe(int rank) const {
  const Peer& p = state_->peer(rank);
  std::string text = formatted("rank {}:", rank);
  for (const Trunk* trunk : p.trunks) {
    text += formatted(" {} {}", trunk->spec.name,
                      trunk->up() ? (trunk->suspect ? "(late)" : "(up)")
                      : trunk->state == Trunk::State::kDialing ? "(connecting)"
                                                               : "(down)");
    if (!trunk->up() && !trunk->last_error.empty()) text += ": " + trunk->last_error;
    text += trunk == p.trunks.back() ? ";" : ",";
  }
  text += formatted(" {} frames unacknowledged, {} messages to send, {} to receive",
                    p.outstanding(), p.sends.size(), p.recvs.size());
  return text;
}

bool Links::gone(int rank) const {
  const Peer& p = state_->peer(rank);
  return p.finished || p.failed;
}

bool Links::idle(int rank) const {
  if (gone(rank)) return true;
  const Peer& p = state_->peer(rank);
  return p.outstanding() == 0 && p.queued.empty() && p.requeued.empty() && p.ready.empty() &&
         p.ack_frames == 0;
}

}  // namespace tbccl::link
