// Collectives among ranks of one host, over memory that each of them writes and all can read: no
// messages, no copies between ranks' memories, the same order of folding as `direct` and `twostep`
// have over links, hence the same bits.
//
// A board holds sets of lines, one for each communicator that is on it (BoardSets; each rank
// chooses among its own): two cells, used in turn, and a few words. A *turn* is: fill the own cell,
// publish it (its number, stored last), read the cells of the others. Turns are counted through all
// operations of the communicator.
//
//   cell      number of the turn, fingerprint of the call, flags; then up to kBoardArea bytes
//   read      the turn up to which this rank has read everything
//   reading   this rank is reading memory that was referred to, not copied
//   closed    what this rank has referred to may not be read any more
//
//   all-reduce, one step    turn: the vector                        then everybody folds all of it
//   all-reduce, two steps   turn: the vector but the own share      everybody folds its share
//                           turn: the result of the own share       everybody copies the others'
//   reduce                  turn: all vectors but the root's        the root folds
//   scan, exclusive scan    turn: all vectors but the last rank's   everybody folds the lower
//   ranks' reduce-scatter          turn: all blocks but the own one        everybody folds its
//   block all-to-all              turn: all blocks but the own one        everybody copies those
//   for it all-gather              turn: the own block                     everybody copies the
//   others' gather                  turn: all blocks but the root's         the root copies them
//   broadcast               turn: the root's vector                 everybody copies it
//   scatter                 turn: the root's blocks but its own     everybody copies its block
//   barrier                 turn: nothing
//
// Longer vectors go by chunks of kBoardArea, chunk after chunk; where a cell holds a piece for each
// rank, a chunk of every block has its share of the cell. Whatever is in a cell is the
// publisher's copy; where the whole vector can be *referred* to (memory of tbcclMemAlloc, or ranks
// of one process) the first turn carries references instead and the others read it directly; the
// call then ends when all have read. Nobody ever writes another's memory.
//
// Overwriting. Turn t + 1 is published when all have published t; who publishes t has read all of
//   turn t - 1, which is in the cell that t + 1 overwrites. Who reads nothing (all but the root of
//   a reduce) publishes and goes, at most one turn ahead.
// Sleeping. A number is stored, then the others' `asleep` is looked at, both sequentially
// consistent;
//   who goes to sleep says so first and then looks at the numbers.
// Failures. None of its own: dead peers, deadlines and aborts break the channel, and withdraw()
//   then sees to it that nobody reads the caller's memory any more: it waits until ranks of this
//   process have left it, and 100 ms for those of others (which may have died there, and read a
//   mapping of their own); who finds `closed` after reading makes nothing of what was read.
// Threads. The holder of the lane's token.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "link/links.h"
#include "reduce/reduce.h"

namespace tbccl::engine {

struct Call;
struct ChannelOptions;

enum class BoardUse : uint8_t {
  kNone,
  kMeet,     // barrier
  kOneStep,  // all-reduce
  kTwoStep,  // all-reduce
  kSpread,   // broadcast
  kReduce,
  kScan,
  kExclusiveScan,
  kReduceScatter,
  kExchange,  // all-to-all
  kCollect,   // all-gather
  kGather,
  kScatter
};

inline constexpr uint32_t kBoardArea = 256 * 1024;    // bytes of a cell
inline constexpr int kMostOnBoard = kBoardArea / 64;  // ranks: each has a line of a cell at least

class Board {
 public:
  // nullptr: not all members share memory with this rank, or a set of lines is beyond a board's
  // end. This rank's own is made ready; those of others may be read when they have joined.
  static std::unique_ptr<Board> join(link::Links& links, const ChannelOptions& options);
  static size_t sets(const tbcclBoard_t& board);  // that it holds
  size_t set() const { return set_; }             // this rank's
  // This rank reads nothing of the others' any more.
  void let_go();
  // No other member reads this rank's lines any more.
  bool abandoned() const;

  // The next operation; the last one is over.
  void begin(const Call& call, uint32_t element);
  // Does what can be done, at most about `budget` bytes of it; false: nothing was.
  bool advance(uint64_t* budget);
  bool done() const { return stage_ == Stage::kDone; }
  // The operation will not be carried on, and its memory not be read any more.
  void withdraw();

  // All members but those that have left have read everything this rank has published.
  bool idle() const;
  // A member that has published another call than this rank in the last turn, which this rank may
  // not have had to read; -1: none.
  int contradicting() const;
  std::vector<int> waiting_for() const;
  // A member whose call has other arguments; -1: none.
  // Told once; the operation then waits to be withdrawn.
  int take_disagreement() {
    const int rank = disagreed_ ? -1 : disagreeing_;
    disagreed_ = disagreed_ || rank >= 0;
    return rank;
  }
  // Likewise a member whose memory this rank cannot read, though it was referred to it.
  int take_unreadable() {
    const int rank = unreadable_;
    unreadable_ = -1;
    return rank;
  }

 private:
  enum class Stage : uint8_t { kFill, kFold, kGather, kLetGo, kDone };
  struct Cell;
  struct Words;
  struct Member {
    int peer = 0;  // rank of the links
    const Words* words = nullptr;
    const Cell* cells[2] = {};
    const std::atomic<uint32_t>* asleep = nullptr;
    bool referred = false;             // in this operation
    const std::byte* input = nullptr;  // nullptr: what it publishes is in its cells
    const std::byte* output = nullptr;
  };
  struct Range {
    uint64_t from, to;
  };

  Board(link::Links& links, const ChannelOptions& options);
  static size_t set_bytes();
  static size_t cell_bytes();
  void make_ready();

  bool step(uint64_t* budget);
  bool fill(uint64_t* budget);
  bool fill_cell(uint64_t* budget);  // true: it is full
  bool fold(uint64_t* budget);
  bool fold_piece(uint64_t end, uint64_t* budget);
  int collect_sources();  // of the present piece, in rank order
  bool gather(uint64_t* budget);
  void copy_own();
  bool copy_from(const Member& m, Range range, uint64_t* budget);
  void begin_chunk(uint64_t from);
  void next_chunk();
  void refer();
  void publish();
  void fetch_next_cell();
  void ring();
  bool has_published(const Member& m, uint64_t turn) const;
  bool arrived(Member& m);  // its part of the present turn is there, and is of the same call
  bool all_arrived();
  void take_references(Member& m);
  Range share(int rank) const;
  bool folds() const;                       // this rank makes a result of what all publish
  bool in_parts() const;                    // a cell holds a piece for each rank
  bool reads(int reader, int owner) const;  // what the owner publishes
  uint64_t input_bytes() const { return in_parts() ? bytes_ * members_.size() : bytes_; }
  uint64_t used() const { return in_parts() ? stride_ * members_.size() : length_; }  // of a cell
  // This rank's piece of the present chunk of what was published first.
  const std::byte* published(const Member& m) const;
  // Reading what was referred to is announced, and not done where that is closed.
  bool start_reading();
  bool stop_reading();  // false: it was closed meanwhile, what was read counts for nothing
  bool closed_to_us() const;

  link::Links& links_;
  const uint32_t comm_;
  const int rank_;
  const int size_;
  size_t set_ = 0;
  std::vector<Member> members_;  // by rank; this rank's own is unused
  Words* words_ = nullptr;
  Cell* cells_[2] = {};
  uint64_t turn_ = 0;  // published last

  // --- the operation ---
  Stage stage_ = Stage::kDone;
  BoardUse use_ = BoardUse::kNone;
  const reduce::Reduction* reduction_ = nullptr;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  uint64_t fingerprint_ = 0;
  uint64_t bytes_ = 0;   // of the vector, or of each block
  uint64_t stride_ = 0;  // between the pieces in a cell, if there is one for each rank
  uint64_t first_turn_ = 0;
  uint32_t element_ = 1;
  int root_ = 0;
  bool in_place_ = false;
  bool fills_ = false;          // this rank has something to publish
  bool refers_input_ = false;   // instead of copying it
  bool refers_output_ = false;  // instead of copying results
  bool gathered_ = false;       // all have published the present turn
  bool any_referred_ = false;   // somebody refers
  uint64_t chunk_ = 0;          // offset of the present one
  uint64_t length_ = 0;         // its bytes
  uint64_t at_ = 0;             // done of the present stage, from the chunk's beginning
  int next_ = 0;                // member to gather from, counted from this rank's successor
  int disagreeing_ = -1;
  bool disagreed_ = false;  // it has been told
  bool stuck_ = false;      // a member's part cannot be read
  int unreadable_ = -1;
  std::vector<const void*> sources_;
};

}  // namespace tbccl::engine
