#include "engine/core.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <stdexcept>

#include "base/formatted.h"
#include "base/log.h"
#include "engine/callbacks.h"
#include "engine/joint.h"
#include "engine/waiting.h"

namespace tbccl::engine {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr uint32_t kSmallestStaging = 64 * 1024;

// Where sources of progress have no descriptor: first nap and longest one.
constexpr uint64_t kShortestNapNs = 50'000;
constexpr uint64_t kLongestNapNs = 100'000'000;

}  // namespace

Core::Core(const link::Options& options, LaneEvents& events, const Parts& parts)
    : parts_(parts),
      events_(events),
      gates_(*parts.poller),
      boards_(options.size),
      links_(options, *this, *parts.poller) {}

bool Core::round() noexcept {
  assert(parts_.token->mine());
  now_ = now_ns();
  try {
    if (failure_ != nullptr) break_all();
    return make_round();
  } catch (...) {
    failed();
    return true;
  }
}

void Core::failed() noexcept {
  failure_ = std::current_exception();
  // Some of them may be complete already, and every channel is going to break.
  for (Request* request : touched_) request->touched = false;
  for (Request* request : again_) request->touched = false;
  touched_.clear();
  again_.clear();
}

bool Core::make_round() {
  bool progressed = drain_inbox();
  progressed |= settle();
  progressed |= walk_boards();
  progressed |= links_.progress();
  if (gates_.begin_walk(now_)) {
    walk_gates();
    progressed |= walk_boards();  // what has started there has not published yet
  }
  progressed |= settle();
  progressed |= handle_breaks();
  if (now_ >= next_check_) timers();
  if (progressed) nap_ns_ = 0;
  return progressed;
}

uint64_t Core::sleep_time(uint64_t deadline) {
  const uint64_t now = now_ns();
  const uint64_t timer = std::min({links_.next_timer(), next_check_, deadline});
  if (timer <= now) return 0;
  uint64_t time = timer == kNever ? kNever : timer - now;
  time = std::min(time, gates_.nap());
  if (!links_.can_sleep()) {
    nap_ns_ = std::clamp(2 * nap_ns_, kShortestNapNs, kLongestNapNs);
    time = std::min(time, nap_ns_);
  }
  return time;
}

bool Core::about_to_sleep() noexcept {
  links_.sleeping(true);
  return round();
}

void Core::awake() {
  links_.sleeping(false);
  gates_.awake();
}

// --- what others pushed -------------------------------------------------------------------------

bool Core::drain_inbox() {
  if (taken_ == nullptr) taken_ = parts_.inbox->take_all();
  if (taken_ == nullptr) return false;
  while (taken_ != nullptr) {
    Item* const item = taken_;
    taken_ = item->next;  // before it is somebody else's; and an exception loses none
    take_in(item);
  }
  return true;
}

void Core::take_in(Item* item) {
  switch (item->kind) {
    case Item::Kind::kSubmit:
      take_in(static_cast<Request*>(item));
      return;
    case Item::Kind::kFail: {
      Channel* const channel = static_cast<Channel::FailItem*>(item)->channel;
      break_channel(channel, channel->state());
      return;
    }
    case Item::Kind::kVisit:
      run_visit(item, *this);
      return;
    case Item::Kind::kPeerGone:
    case Item::Kind::kPeerFinished: {
      const std::unique_ptr<PeerItem> peer(static_cast<PeerItem*>(item));
      if (peer->kind == Item::Kind::kPeerFinished) {
        links_.peer_finished(peer->peer);
        return;
      }
      break_peer(peer->peer, peer->cause);
      handle_breaks();
      links_.fail_peer(peer->peer, peer->cause);
    }
  }
}

void Core::take_in(Request* request) {
  Channel* const channel = request->channel;
  unfinished_.store(unfinished_.load(std::memory_order_relaxed) + 1);
  request->progressed_at = now_;
  channel->queued.push_back(request);
  if (channel->broken()) {
    if (!channel->broken_handled) {
      break_channel(channel, channel->state());
      return;
    }
    channel->queued.remove(request);
    finish(request, channel->state());
    return;
  }
  if (channel->queued.front == request) start_queued(channel);
  if (request->phase == Request::Phase::kQueued) {
    next_check_ = std::min(next_check_, after(now_, request->call.timeout_ns));
  }
}

void Core::walk_gates() {
  // A start changes the list.
  for (size_t i = gates_.waiting().size(); i-- > 0;) {
    if (i < gates_.waiting().size()) start_queued(gates_.waiting()[i]->channel);
  }
}

// --- starting -----------------------------------------------------------------------------------

void Core::start_queued(Channel* channel) {
  while (Request* const request = channel->queued.front) {
    const bool schedule = request->call.kind == RequestKind::kSchedule;
    if (schedule && channel->active_schedules >= kActiveSchedules) return;
    switch (gates_.ask(request)) {
      case Gates::Answer::kWait:
        // Its time runs from here until it starts, and then anew.
        if (request->deadline == kNever) set_deadline(request);
        return;
      case Gates::Answer::kBad:
        break_later(channel,
                    Status(tbcclInvalidUsage,
                           formatted("{} was to start when descriptor {} becomes readable, but "
                                     "that is not open: keep it open until the call has started",
                                     record_of(request).text, request->call.descriptor)));
        return;
      case Gates::Answer::kStart:
        if (!start(request)) return;
    }
  }
}

Request* Core::start_tiny(Channel* channel, const Call& call, Home* home) {
  if (!quiet()) return nullptr;
  touched_.reserve(1);  // what could throw comes before the call has a number
  Request* const request = channel->submit_tiny(home, call);
  if (request == nullptr) return nullptr;
  now_ = now_ns();
  unfinished_.store(1);
  const ChannelOptions& options = channel->options();
  request->tiny->begin(
      *call.plan->tiny, request->call, request->element,
      Site{&links_, &options.peers, options.comm, request->number, call.fingerprint, request});
  activate(request);
  ++channel->active_schedules;
  touch(request);
  return request;
}

void Core::activate(Request* request) {
  request->phase = Request::Phase::kActive;
  request->channel->active.push_back(request);
  set_deadline(request);
  request->progressed_at = request->reported_at = request->channel->progressed_at = now_;
  next_check_ = std::min(next_check_, now_ + kStallNs);
}

void Core::set_deadline(Request* request) {
  request->late_since = 0;
  request->deadline = after(now_, request->call.timeout_ns);
  next_check_ = std::min(next_check_, request->deadline);
}

bool Core::start(Request* request) {
  Channel* const channel = request->channel;
  const Call& call = request->call;
  const bool schedule = call.kind == RequestKind::kSchedule;
  if (schedule && !begin(request)) return false;
  channel->queued.remove(request);
  activate(request);
  if (!schedule) {
    start_message(request);
    return true;
  }
  ++channel->active_schedules;
  if (request->board == nullptr) touch(request);
  return true;
}

// The memory that a schedule needs depends on what the user asked for, so that its lack is an
// error of this call.
bool Core::begin(Request* request) {
  Channel* const channel = request->channel;
  const ChannelOptions& options = channel->options();
  const Call& call = request->call;
  if (call.joint != nullptr) call.joint->gather();
  if (channel->goes_on_board(call)) {
    request->board = channel->board.get();
    board(request);
    return true;
  }
  try {
    request->execution.begin(call, request->element,
                             Site{&links_, &options.peers, options.comm, request->number,
                                  call.fingerprint, request, links_.take_turn()});
    return true;
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  break_later(request->channel,
              Status(tbcclSystemError,
                     formatted("{}, operation {} of communicator {}, cannot start on rank {}: "
                               "there is not enough memory for it and its {} bytes of scratch; "
                               "use a smaller message, or another algorithm (TBCCL_ALGO)",
                               record_of(request).text, request->number, options.name, options.rank,
                               request->execution.scratch_wanted())));
  return false;
}

void Core::start_message(Request* request) {
  Channel* const channel = request->channel;
  const Call& call = request->call;
  std::vector<Match> matches;
  matches.swap(matches_);
  request->message.sent = call.kind == RequestKind::kRecv;
  request->message.received = call.kind == RequestKind::kSend;
  if (!request->message.sent) start_send(request, &matches);
  if (!request->message.received) {
    const bool any = call.peer == TBCCL_ANY_SOURCE;
    const int peer = any ? TBCCL_ANY_SOURCE : channel->options().peers[call.peer];
    channel->matching.receive(request, peer, call.tag, &matches);
  }
  match(channel, matches);
  matches.swap(matches_);
}

void Core::start_send(Request* request, std::vector<Match>* matches) {
  Channel* const channel = request->channel;
  const ChannelOptions& options = channel->options();
  const Call& call = request->call;
  Message& message = request->message;
  const int to = request->sends_and_receives() ? call.to : call.peer;
  const int peer = options.peers[to];
  const uint64_t number = channel->matching.next_send(peer, call.tag);
  if (!request->sends_and_receives()) {
    message.peer = peer;
    message.matched = true;
  }
  if (to == options.rank) {
    channel->matching.announced(call.tag, {peer, number, request}, matches);
    return;
  }
  link::SendSpec spec;
  spec.key = {options.comm, link::Class::kPointToPoint, static_cast<uint32_t>(call.tag), number};
  spec.data = static_cast<const std::byte*>(call.input);
  spec.total = spec.available = request->bytes_sent();
  spec.fingerprint = request->fingerprint_sent();
  spec.announce = true;
  spec.owner = request;
  link::Send* const send = links_.post_send(peer, spec);
  message.sent |= send == nullptr;
  if (!message.sent) message.send = send;
  if (message.done()) touch(request);
}

void Core::match(Channel* channel, std::vector<Match>& matches) {
  for (const Match& match : matches) {
    Request* const request = match.receive;
    Message& message = request->message;
    message.peer = match.peer;
    message.matched = true;
    request->source = channel->comm_rank(match.peer);
    if (match.self != nullptr) {
      copy_to_self(match.self, request);
      continue;
    }
    link::RecvSpec spec;
    spec.key = {channel->options().comm, link::Class::kPointToPoint,
                static_cast<uint32_t>(request->call.tag), match.number};
    spec.total = spec.granted = request->bytes();
    spec.fingerprint = request->call.fingerprint;
    spec.unit = request->element;
    spec.owner = request;
    link::Recv* const recv = links_.post_recv(match.peer, spec);
    if (!message.received) message.recv = recv;
  }
  matches.clear();
}

void Core::copy_to_self(Request* send, Request* receive) {
  if (send->bytes_sent() != receive->bytes() ||
      send->fingerprint_sent() != receive->call.fingerprint) {
    break_later(send->channel,
                Status(tbcclInvalidUsage,
                       formatted("a message of this rank to itself with tag {} was sent by {} "
                                 "and received by {}: give both the same count and type",
                                 send->call.tag, record_of(send).text, record_of(receive).text)));
    return;
  }
  if (receive->bytes() > 0) {
    std::memmove(receive->call.output, send->call.input, receive->bytes());
  }
  send->message.sent = receive->message.received = true;
  touch(send);
  touch(receive);
}

// --- carrying on --------------------------------------------------------------------------------

void Core::touch(Request* request) {
  request->progressed_at = now_;
  if (request->touched) return;
  request->touched = true;
  touched_.push_back(request);
}

bool Core::settle() {
  if (touched_.empty()) return false;
  uint64_t budget = kSliceBytes;
  for (size_t i = 0; i < touched_.size(); ++i) {  // grows while it is walked
    Request* const request = touched_[i];
    if (settle(request, &budget)) again_.push_back(request);
  }
  touched_.clear();
  touched_.swap(again_);
  return true;
}

bool Core::settle(Request* request, uint64_t* budget) {
  bool complete = request->message.done();
  if (request->tiny != nullptr) {
    complete = request->tiny->settle();
  } else if (request->call.kind == RequestKind::kSchedule) {
    if (!request->execution.settle(budget)) return true;
    complete = request->execution.complete();
  }
  request->touched = false;
  if (complete) done(request);
  return false;
}

void Core::done(Request* request) {
  Channel* const channel = request->channel;
  channel->active.remove(request);
  channel->progressed_at = now_;
  if (request->call.kind == RequestKind::kSchedule) --channel->active_schedules;
  if (request->board != nullptr) leave_board(request);
  if (request->call.joint != nullptr) request->call.joint->scatter();
  finish(request, Status());
  if (!channel->broken()) start_queued(channel);
}

// The request is in none of the channel's lists any more. After `complete` is set it may be freed
// by the user.
void Core::finish(Request* request, const Status& result) {
  Channel* const channel = request->channel;
  const bool callback = request->call.callback != nullptr;
  request->result = result;
  request->phase = Request::Phase::kComplete;
  unfinished_.store(unfinished_.load(std::memory_order_relaxed) - 1);
  if (request->own) {  // its caller holds the token
    channel->outstanding.fetch_sub(1);
    return;
  }
  request->complete.store(true);
  parts_.waiters->completed(request);
  if (callback) parts_.callbacks->post(request);
  request->at_rest.store(true);  // it may be started again, if it is one for that
  channel->unreference(request);
  if (!callback) channel->outstanding.fetch_sub(1);
}

// --- callbacks of the links ---------------------------------------------------------------------

void Core::Staging::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, kAlignment);
}

std::byte* Core::Staging::reserve(uint32_t length) {
  if (length > bytes) {
    bytes = std::max(length, std::max(kSmallestStaging, bytes < UINT32_MAX / 2 ? 2 * bytes : 0));
    memory.reset();
    memory.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
  }
  return memory.get();
}

std::byte* Core::place(void* owner, uint32_t index, uint64_t offset, uint32_t length,
                       uint32_t trunk) {
  auto* const request = static_cast<Request*>(owner);
  if (request->call.kind != RequestKind::kSchedule) {
    return static_cast<std::byte*>(request->call.output) + offset;
  }
  std::byte* const final_place = request->tiny != nullptr
                                     ? request->tiny->place(index, offset)
                                     : request->execution.place(index, offset, length);
  if (final_place != nullptr) return final_place;
  if (trunk >= staging_.size()) staging_.resize(trunk + 1);
  return staging_[trunk].reserve(length);
}

void Core::arrived(void* owner, uint32_t index, uint64_t offset, uint32_t length,
                   const std::byte* data, bool last) {
  auto* const request = static_cast<Request*>(owner);
  payload_received_.store(payload_received_.load(std::memory_order_relaxed) + length,
                          std::memory_order_relaxed);
  touch(request);
  if (request->tiny != nullptr) {
    request->tiny->arrived(index, offset, length, data, last);
    return;
  }
  if (request->call.kind == RequestKind::kSchedule) {
    request->execution.arrived(index, offset, length, data, last);
    return;
  }
  std::byte* const to = static_cast<std::byte*>(request->call.output) + offset;
  if (length > 0 && to != data) std::memcpy(to, data, length);
  if (last) {
    request->message.recv = nullptr;
    request->message.received = true;
  }
}

void Core::released(void* owner, uint32_t index) {
  auto* const request = static_cast<Request*>(owner);
  touch(request);
  if (request->tiny != nullptr) {
    request->tiny->released(index);
    return;
  }
  if (request->call.kind == RequestKind::kSchedule) {
    request->execution.released(index);
    return;
  }
  request->message.send = nullptr;
  request->message.sent = true;
}

void Core::unexpected(int peer, const link::Key& key, uint64_t, uint64_t) {
  Channel* const channel = find(key.comm);
  if (channel == nullptr || channel->broken()) return;
  std::vector<Match> matches;
  matches.swap(matches_);
  channel->matching.announced(static_cast<int>(key.step), {peer, key.op, nullptr}, &matches);
  match(channel, matches);
  matches.swap(matches_);
}

}  // namespace tbccl::engine
