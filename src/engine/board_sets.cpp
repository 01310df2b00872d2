#include "engine/board_sets.h"

#include <algorithm>

namespace tbccl::engine {

int BoardSets::reserve(link::Links& links) {
  sweep();
  size_t sets = 0;
  for (int peer = 0; peer < ranks_; ++peer) {
    tbcclBoard_t shared{};
    if (links.board(peer, &shared)) sets = std::max(sets, Board::sets(shared));
  }
  if (taken_.size() < sets) taken_.resize(sets, false);
  const auto at = std::find(taken_.begin(), taken_.end(), false);
  if (at == taken_.end()) return -1;
  *at = true;
  return static_cast<int>(at - taken_.begin());
}

void BoardSets::unreserve(int set) {
  const auto at = static_cast<size_t>(set);
  if (set >= 0 && at < taken_.size()) taken_[at] = false;
}

void BoardSets::joined(const Board& board) {
  if (board.set() >= taken_.size()) taken_.resize(board.set() + 1, false);
  taken_[board.set()] = true;
}

void BoardSets::give_up(std::unique_ptr<Board> board) {
  if (board == nullptr) return;
  board->let_go();
  ended_.push_back(std::move(board));
}

void BoardSets::sweep() {
  std::erase_if(ended_, [this](const auto& board) {
    if (!board->abandoned()) return false;
    taken_[board->set()] = false;
    return true;
  });
}

}  // namespace tbccl::engine
