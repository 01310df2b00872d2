// How communicators are made from one, by all of its ranks:
//
//   1. tell      each rank's colour, key, and what it has ready for a child: one all-reduce of
//                words, an operation of the parent like any other
//   2. options   another one, where a child's first rank wants other algorithms than the parent's
//   3. make      each rank knows its child's members and number, and adds the channel; the child's
//                basis is the parent's, restricted to its ranks
//   4. agree     everybody has made its child, or nobody: only then may messages be sent; and which
//                children are on a board
//
// A child's number is chosen by its first rank (Family::number_of), the options are that rank's.
// Nothing is connected, listened at, or started. What a child has of its own: a channel, its plans,
// and, where its ranks share memory, a set of lines of each rank's board (BoardSets).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "schedule/basis.h"

namespace tbccl::comm {

// The basis of some of its ranks, in the given order.
schedule::Basis restricted(const schedule::Basis& basis, const std::vector<int>& ranks);

// The ranks of one colour, ordered by key, then by rank.
std::vector<int> members_of(int color, const std::vector<int>& colors,
                            const std::vector<int>& keys);

class Split {
 public:
  Split(Communicator& parent, const SplitWish& wish);
  Status run(std::unique_ptr<Communicator>* child);

 private:
  // What a rank tells, in kWords words.
  struct Wish {
    int color = 0;
    int key = 0;
    uint32_t turn = 0;     // for a number
    int board_set = -1;    // reserved for the child
    bool refused = false;  // nothing is to be made, anywhere
    bool options = false;  // text and deterministic are not the parent's
    bool deterministic = false;
    uint32_t text = 0;  // bytes of its algorithms
  };
  static constexpr size_t kWords = 3;

  Status wish_for(const SplitWish& wish);
  Status tell();
  Status exchange_options();
  Status make(std::unique_ptr<Communicator>* child);
  Status agree(const Status& made, Communicator* child);
  // Bitwise or of `count` elements of all ranks of the parent.
  Status combine(void* data, uint64_t count, tbcclDataType_t type, int step);
  bool shares_memory(const Communicator& child) const;
  void return_board_set();

  Communicator& parent_;
  std::string name_;
  Settings settings_;  // of this rank's child
  Wish mine_;
  Status refusal_;          // of this rank's wish
  std::vector<Wish> all_;   // by rank of the parent
  std::vector<int> ranks_;  // of the child, in the parent; empty: without a colour
  bool on_board_ = false;   // this rank shares one with all others of the child
};

}  // namespace tbccl::comm
