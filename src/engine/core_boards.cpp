// What the holder does for operations that go over a board.
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
  channel->on_board = request;
  activate(request);
  ++channel->active_schedules;
  return request;
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
    }
  }
  return any;
}

// On the board: what another rank has published belongs to another call.
void Core::disagree(Request* request, int rank) {
  const link::Key key{request->channel->options().comm, link::Class::kCollective, 0,
                      request->number};
  mismatch(request->channel->options().peers[static_cast<size_t>(rank)], key, request, 0);
}

}  // namespace tbccl::engine
