// The entry points of engine.h.
#include <algorithm>

#include "engine/home.h"
#include "engine/joint.h"

namespace tbccl::engine {

struct Lane::State : Home {
  using Home::Home;
};

namespace {

// Counts this thread as being inside a call on the channel.
class Inside {
 public:
  explicit Inside(Channel* channel) : channel_(channel) { channel_->inside.fetch_add(1); }
  ~Inside() { channel_->inside.fetch_sub(1); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Channel* channel_;
};

bool is_tiny(const Call& call) {
  return call.plan != nullptr && call.plan->tiny != nullptr && call.blocks == nullptr &&
         call.callback == nullptr && call.start_when == tbcclStartNow &&
         call.count <= kTinyBytes / reduce::size_of(call.reduction.type);
}

// Found when there is no call any more to compare records of.
Status contradiction(int rank) {
  return Status(tbcclInvalidUsage,
                "ranks disagree about the last operation: rank " + std::to_string(rank) +
                    " called it with different arguments; all ranks must make the same calls in "
                    "the same order, with equal operation, count, type, operator and root");
}

// What came when nobody would look any more. News of peers is all that is its own; the other items
// are parts of channels, or of calls that have returned.
void discard(Item* item) {
  while (item != nullptr) {
    Item* const next = item->next;
    if (item->kind == Item::Kind::kPeerGone || item->kind == Item::Kind::kPeerFinished) {
      delete static_cast<PeerItem*>(item);
    }
    item = next;
  }
}

Status in_progress() {
  return Status(tbcclInProgress, "the operation has not completed in the given time");
}

}  // namespace

Lane::Lane(const LaneOptions& options, const link::Options& links, LaneEvents& events)
    : state_(std::make_unique<State>(options, links, events)) {}

Lane::~Lane() {
  if (state_->in_child()) {
    // Its threads do not exist here and its sockets are the parent's: nothing of it may be touched.
    (void)state_.release();
    return;
  }
  state_->worker.stop();
  state_->callbacks.stop();
  // The links close, under the token, with everything else.
  while (!state_->take()) std::this_thread::yield();
  discard(state_->inbox.take_all());
}

Status Lane::status() const {
  if (state_->in_child()) return forked_error();
  return state_->status;
}

void Lane::with_links(const std::function<void(link::Links&)>& f) {
  if (state_->in_child()) return;
  state_->visit([&](Core& core) { f(core.links()); });
}

bool Lane::drive(const std::function<bool(link::Links&)>& done, uint64_t deadline_ns) {
  if (state_->in_child()) return false;
  return state_->drive(done, deadline_ns);
}

Channel* Lane::add_channel(const ChannelOptions& options) {
  if (state_->in_child()) return nullptr;
  Channel* channel = nullptr;
  state_->visit([&](Core& core) { channel = core.add_channel(options); });
  return channel;
}

void Lane::remove_channel(Channel* channel) {
  if (state_->in_child()) return;
  const auto left = [&](link::Links&) {
    return channel->outstanding.load() == 0 && channel->inside.load() == 0;
  };
  state_->drive(left, kNever);
  state_->visit([&](Core& core) { core.remove_channel(channel); });
}

bool Lane::join_board(Channel* channel) {
  if (state_->in_child()) return false;
  state_->visit([&](Core& core) {
    channel->board = Board::join(core.links(), channel->options());
    if (channel->board != nullptr) core.boards().joined(*channel->board);
  });
  return channel->board != nullptr;
}

void Lane::leave_board(Channel* channel) {
  if (state_->in_child()) return;
  state_->visit([&](Core& core) { core.boards().give_up(std::move(channel->board)); });
}

int Lane::reserve_board() {
  int set = -1;
  if (state_->in_child()) return set;
  state_->visit([&](Core& core) { set = core.boards().reserve(core.links()); });
  return set;
}

void Lane::return_board(int set) {
  if (state_->in_child()) return;
  state_->visit([&](Core& core) { core.boards().unreserve(set); });
}

Status Lane::submit(Channel* channel, const Call& call, Request** request) {
  const Status taken = enqueue(channel, call, 1, request);
  if (taken.ok()) state_->submitted(call);
  return taken;
}

Status Lane::enqueue(Channel* channel, const Call& call, int users, Request** request) {
  if (state_->in_child()) return forked_error();
  if (!state_->status.ok()) return state_->status;
  const Inside inside(channel);
  int references = users + 1;
  if (call.callback != nullptr) {
    if (Status started = state_->callbacks.start(); !started.ok()) return started;
    ++references;
  }
  return channel->submit(state_.get(), call, references, state_->inbox, request);
}

void Lane::tell(bool waits) {
  if (state_->in_child()) return;
  // A free lane is taken by the thread that waits; a sleeping holder has to see the requests.
  if (!waits) {
    state_->pushed();
  } else if (state_->token.state() == Token::State::kSleeping) {
    state_->poller.ring();
  }
}

Status Lane::keep(Channel* channel, const Call& call, Request** request) {
  if (state_->in_child()) return forked_error();
  if (!state_->status.ok()) return state_->status;
  if (call.callback != nullptr) {
    if (Status started = state_->callbacks.start(); !started.ok()) return started;
  }
  return channel->keep(state_.get(), call, request);
}

Status Lane::start(Request* request) {
  const Status taken = enqueue_start(request);
  if (taken.ok()) state_->submitted(request->call);
  return taken;
}

Status Lane::enqueue_start(Request* request) {
  if (state_->in_child()) return forked_error();
  const Inside inside(request->channel);
  return request->channel->start(request, state_->inbox);
}

Status Lane::run(Channel* channel, const Call& call) {
  if (state_->in_child()) return forked_error();
  if (!state_->status.ok()) return state_->status;
  const Inside inside(channel);
  if (call.joint != nullptr) call.joint->gather();
  if (channel->goes_on_board(call)) {
    const bool plain = call.callback == nullptr && call.start_when == tbcclStartNow;
    if (plain) {
      if (std::optional<Status> done = state_->run_on_board(channel, call); done) return *done;
    }
  } else if (is_tiny(call)) {
    if (std::optional<Status> done = state_->run_tiny(channel, call); done) return *done;
  }
  Request* request = nullptr;
  if (Status taken = enqueue(channel, call, 1, &request); !taken.ok()) return taken;
  tell(true);
  state_->wait(request, kNever);
  Status result = request->result;
  channel->unreference(request);
  return result;
}

bool Lane::test(Request* request, Status* result) {
  if (state_->in_child()) {
    *result = forked_error();
    return true;
  }
  if (!request->complete.load()) {
    state_->look();
    if (!request->complete.load()) return false;
  }
  *result = request->result;
  return true;
}

Status Lane::wait(Request* request, uint64_t timeout_ns) {
  if (state_->in_child()) return forked_error();
  const Inside inside(request->channel);
  if (!state_->wait(request, timeout_ns)) return in_progress();
  return request->result;
}

int Lane::source(const Request* request) const { return request->source; }

void Lane::release(Request* request) {
  if (state_->in_child()) return;
  request->channel->unreference(request);
}

void Lane::fail(Channel* channel, const Status& cause) {
  if (state_->in_child()) return;
  if (!channel->break_with(cause)) return;
  state_->inbox.push(&channel->fail_item);
  state_->pushed();
}

void Lane::peer_gone(int peer, const Status& cause) {
  if (state_->in_child()) return;
  state_->inbox.push(new PeerItem(Item::Kind::kPeerGone, peer, cause));
  state_->pushed();
}

void Lane::peer_finished(int peer) {
  if (state_->in_child()) return;
  state_->inbox.push(new PeerItem(Item::Kind::kPeerFinished, peer, Status()));
  state_->pushed();
}

Status Lane::state(Channel* channel) const {
  if (state_->in_child()) return forked_error();
  return channel->state();
}

CallRecord Lane::record(Channel* channel) {
  CallRecord record;
  if (state_->in_child()) return record;
  state_->visit([&](Core& core) { record = core.record(channel); });
  return record;
}

// Nothing is outstanding, and nobody has to read what is on the board; or it is broken.
bool Lane::at_rest(Channel* channel) {
  if (channel->broken()) return true;
  if (channel->board != nullptr) {
    if (const int rank = channel->board->contradicting(); rank >= 0) {
      fail(channel, contradiction(rank));
    }
    if (!channel->board->idle()) return false;
  }
  return channel->outstanding.load() == 0;
}

Status Lane::quiesce(Channel* channel, uint64_t deadline_ns) {
  if (state_->in_child()) return forked_error();
  const auto quiet = [&](link::Links&) { return at_rest(channel); };
  if (state_->drive(quiet, deadline_ns)) return channel->state();
  return Status(tbcclTimeout, "communicator " + channel->options().name +
                                  " still has operations in progress, or results that another "
                                  "rank has not read");
}

Status Lane::drain(Channel* channel, uint64_t deadline_ns) {
  if (state_->in_child()) return forked_error();
  const std::vector<int>& peers = channel->options().peers;
  const int self = peers[static_cast<size_t>(channel->options().rank)];
  const auto drained = [&](link::Links& links) {
    if (!at_rest(channel)) return false;
    return channel->broken() || std::all_of(peers.begin(), peers.end(),
                                            [&](int p) { return p == self || links.idle(p); });
  };
  if (state_->drive(drained, deadline_ns)) return channel->state();
  return Status(tbcclTimeout,
                "communicator " + channel->options().name +
                    " still has operations in progress or messages that no peer has acknowledged");
}

uint64_t Lane::payload_received() const { return state_->core.payload_received(); }

}  // namespace tbccl::engine
