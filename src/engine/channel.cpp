#include "engine/channel.h"

#include <thread>

namespace tbccl::engine {

void RequestList::push_back(Request* request) {
  request->previous = back;
  request->following = nullptr;
  (back != nullptr ? back->following : front) = request;
  back = request;
}

void RequestList::remove(Request* request) {
  (request->previous != nullptr ? request->previous->following : front) = request->following;
  (request->following != nullptr ? request->following->previous : back) = request->previous;
  request->previous = request->following = nullptr;
}

Channel::Channel(const ChannelOptions& options)
    : matching(options.peers[options.rank]), options_(options) {
  for (size_t i = 0; i < options_.peers.size(); ++i) {
    comm_ranks_.emplace(options_.peers[i], static_cast<int>(i));
  }
}

int Channel::comm_rank(int lane_rank) const {
  const auto at = comm_ranks_.find(lane_rank);
  return at == comm_ranks_.end() ? -1 : at->second;
}

// From the pool, with what does not change from start to start.
Request* Channel::make(Home* home, const Call& call) {
  Request* const r = take_free();
  r->channel = this;
  r->home = home;
  r->call = call;
  r->element = reduce::size_of(call.reduction.type);
  r->lasting = false;
  return r;
}

// In the order of the channel, as a request that is to start.
void Channel::place(Request* r, Inbox& inbox) {
  r->number = r->call.kind == RequestKind::kSchedule ? next_number_++ : 0;
  r->phase = Request::Phase::kQueued;
  r->touched = false;
  r->deadline = kNever;
  r->message = {};
  r->board = nullptr;
  r->source = -1;
  r->at_rest.store(false, std::memory_order_relaxed);
  r->complete.store(false, std::memory_order_relaxed);
  outstanding.fetch_add(1);
  inbox.push(r);
}

Status Channel::submit(Home* home, const Call& call, int references, Inbox& inbox,
                       Request** request) {
  const std::lock_guard lock(submit_mutex_);
  if (broken()) return state();
  Request* const r = make(home, call);
  r->references.store(references, std::memory_order_relaxed);
  *request = r;
  place(r, inbox);
  return {};
}

Status Channel::keep(Home* home, const Call& call, Request** request) {
  const std::lock_guard lock(submit_mutex_);
  if (broken()) return state();
  Request* const r = make(home, call);
  r->references.store(1, std::memory_order_relaxed);
  r->lasting = true;
  r->phase = Request::Phase::kComplete;
  r->source = -1;
  r->at_rest.store(true, std::memory_order_relaxed);
  r->complete.store(true);
  *request = r;
  return {};
}

Status Channel::start(Request* request, Inbox& inbox) {
  const std::lock_guard lock(submit_mutex_);
  if (!request->complete.load()) {
    return Status(tbcclInvalidArgument,
                  "the request is in progress: wait for it before it is started again");
  }
  if (broken()) return state();
  // Whoever has just completed it is on the last steps with it, and needs no lock of this channel.
  while (!request->at_rest.load()) std::this_thread::yield();
  request->result = Status();
  request->references.fetch_add(request->call.callback != nullptr ? 2 : 1);
  place(request, inbox);
  return {};
}

uint64_t Channel::take_number() {
  const std::lock_guard lock(submit_mutex_);
  if (broken()) return 0;
  outstanding.fetch_add(1);
  return next_number_++;
}

Request* Channel::make_own(Home* home, const Call& call, uint64_t number) {
  Request* const r = &own_request_;
  r->channel = this;
  r->home = home;
  r->call = call;
  r->element = reduce::size_of(call.reduction.type);
  r->number = number;
  r->own = true;
  r->tiny = nullptr;
  r->board = nullptr;
  r->touched = false;
  r->result = Status();
  return r;
}

Request* Channel::submit_tiny(Home* home, const Call& call) {
  const uint64_t number = take_number();
  if (number == 0) return nullptr;
  Request* const r = make_own(home, call, number);
  r->tiny = &tiny_;
  return r;
}

Request* Channel::take_free() {
  if (free_ == nullptr) free_ = freed_.exchange(nullptr);
  if (free_ == nullptr) {
    all_.push_back(std::make_unique<Request>());
    return all_.back().get();
  }
  Request* const request = free_;
  free_ = request->next_free;
  return request;
}

void Channel::unreference(Request* request) {
  if (request->references.fetch_sub(1) != 1) return;
  request->result = Status();
  request->call.joint.reset();
  Request* head = freed_.load(std::memory_order_relaxed);
  do {
    request->next_free = head;
  } while (!freed_.compare_exchange_weak(head, request));
}

bool Channel::break_with(const Status& cause) {
  const std::lock_guard lock(status_mutex_);
  if (!cause_.ok()) return false;
  cause_ =
      cause.ok() ? Status(tbcclInternalError, "a communicator was broken without a cause") : cause;
  broken_.store(true);
  return true;
}

Status Channel::state() const {
  if (!broken()) return {};
  const std::lock_guard lock(status_mutex_);
  return cause_;
}

}  // namespace tbccl::engine
