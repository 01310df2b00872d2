// Collectives over trees: the part that spanning, shallow and hierarchical share.
//
// Every block of the vector is cut in proportion to some trees over all ranks, and each part of it
// goes over one of them: towards the root it is combined (reduce, reduce-scatter), from the root it
// is passed on (broadcast, all-gather), and an all-reduce does the one and then the other. The
// engine streams, so every part moves over all levels of its tree at once, and the time of a large
// vector is what the busiest link carries.
#pragma once

#include <vector>

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

struct Tree {
  int root = 0;
  int block = 0;            // of the vector, which the tree is for
  int pieces = 1;           // of that block, which go over it
  std::vector<int> parent;  // of each rank; the root's is -1
  bool operator==(const Tree&) const = default;
};

// The trees of a block take its pieces one after the other, in their order here.
//
// Chunks.  What is ready is sent, and what is sent first goes first: a part that moves up would
//   fill a link with all it has before the results of others that come down have their turn, and
//   they would all be late. So the parts of a large all-reduce are cut into chunks, few of which
//   are under way on one link at a time. Other operations move one way only, and need none.
struct Forest {
  int pieces = 1;  // of each block
  int chunks = 1;  // that every piece is cut into
  std::vector<Tree> trees;
};

// How many blocks of trees a collective needs, and where those of a block have their roots: at the
// collective's root, at the block's rank, or anywhere (-1).
int forest_blocks(const schedule::Collective& collective, int size);
int forest_root(const schedule::Collective& collective, int block);

// For at least two ranks; all-reduce, barrier, broadcast, reduce, and all-gather and reduce-scatter
// with their v-forms. Contributions are combined from child to child in the order of ranks.
schedule::Schedule make_on_trees(const char* algorithm, const Forest& forest,
                                 const schedule::Collective& collective, int rank, int size);

// Exact in what links carry and ranks do; the latency is that of the deepest path, with the time
// that the first segment takes at every level.
Cost cost_on_trees(const Forest& forest, const schedule::Collective& collective, uint64_t bytes,
                   const schedule::Basis& basis);

// Which ways a collective goes over its trees.
bool combines_up(const schedule::Collective& collective);
bool passes_down(const schedule::Collective& collective);

}  // namespace tbccl::algorithms
