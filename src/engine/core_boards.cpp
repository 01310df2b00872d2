// What the holder does for operations that go over a board.

#include "base/formatted.h"
#include "engine/core.h"

namespace tbccl::engine {

bool Core::quiet() const {
  return taken_ == nullptr && parts_.inbox->empty() && unfinished_.load() == 0 &&
         failure_ == nullptr;
}

Request* Core::adopt(Channel* channel, const Call& call, uint64_t number, Home* home) {
  Request* const request = channel->make_own(home, call, number);
  now_ = now_ns();
  unfinished_.store(1);
  request->board = channel->board.get();
  channel->on_board = channel->last_for_board = request;
  request->behind = nullptr;
  activate(request);
  ++channel->active_schedules;
  return request;
}

void Core::board(Request* request) {
  Channel* const channel = request->channel;
  request->behind = nullptr;
  if (channel->on_board != nullptr) {
    channel->last_for_board->behind = request;
    channel->last_for_board = request;
    return;
  }
  channel->on_board = channel->last_for_board = request;
  request->board->begin(request->call, request->element);
}

// The operation is over.
void Core::leave_board(Request* request) {
  Channel* const channel = request->channel;
  Request* const next = request->behind;
  channel->on_board = next;
  if (next != nullptr) next->board->begin(next->call, next->element);
}

// Nothing arrives by the links for what goes over a board: each round looks at it.
bool Core::walk_boards() {
  bool any = false;
  for (size_t i = 0; i < channels_.size(); ++i) {
    Request* const request = channels_[i]->on_board;
    if (request == nullptr) continue;
    Board& board = *request->board;
    uint64_t budget = kSliceBytes;
    if (board.advance(&budget)) {
      any = true;
      request->progressed_at = now_;
    }
    if (board.done()) {
      done(request);
    } else if (const int rank = board.take_disagreement(); rank >= 0) {
      disagree(request, rank);
    } else if (const int owner = board.take_unreadable(); owner >= 0) {
      break_later(channels_[i].get(), unreadable(request, owner));
    }
  }
  return any;
}

Status Core::unreadable(const Request* request, int owner) const {
  const ChannelOptions& options = request->channel->options();
  return Status(
      tbcclSystemError,
      formatted("{}, operation {} of communicator {}: rank {} cannot read the memory of rank {} "
                "(from tbcclMemAlloc); raise the limits of open files (ulimit -n) and of address "
                "space (ulimit -v), or use ordinary memory",
                record_of(request).text, request->number, options.name, options.rank, owner));
}

// On the board: what another rank has published belongs to another call.
void Core::disagree(Request* request, int rank) {
  const link::Key key{request->channel->options().comm, link::Class::kCollective, 0,
                      request->number};
  mismatch(request->channel->options().peers[static_cast<size_t>(rank)], key, request, 0);
}

}  // namespace tbccl::engine
