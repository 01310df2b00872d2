// Which sets of lines of this rank's board are taken. Each rank numbers its own. The set of a
// channel that has ended is free again when nobody reads it any more: when every other member has
// let go of its own board of that communicator, or is gone.
//
// Belongs to the holder of the lane's token.
#pragma once

#include <memory>
#include <vector>

#include "engine/board.h"
#include "link/links.h"

namespace tbccl::engine {

class BoardSets {
 public:
  explicit BoardSets(int ranks) : ranks_(ranks) {}

  // -1: there is none. `ranks` of the links are looked at for one that shares memory with this one.
  int reserve(link::Links& links);
  void unreserve(int set);
  void joined(const Board& board);  // its set is taken, reserved or not
  void give_up(std::unique_ptr<Board> board);

 private:
  void sweep();

  const int ranks_;
  std::vector<bool> taken_;
  std::vector<std::unique_ptr<Board>> ended_;
};

}  // namespace tbccl::engine
