// Spanning trees packed into the cabling: for large vectors on any cabling.
//
// Plan.  Where every rank has the same cables, a ring or a direct exchange uses all of them. Where
// a
//   cable is missing, or there is one more, they leave some idle or wait for the slowest. Here the
//   vector is split over several spanning trees, whose shares fill the cables as evenly as can be
//   (packing.h), and every part goes over its tree in segments (trees.h):
//
//      0     1      a mesh without the cable 0-1: five cables, five trees of three cables, each
//      with | \ / |      a fifth of the vector; every cable is in three of them and carries 3/5 of
//      a | / \ |      vector each way in an all-reduce, where a ring along four of the cables makes
//      3 --- 2      them carry 3/4
//
// Bound.  The packing is the best there is for up to kExactPackingRanks ranks, and reaches what
//   bounds.h says no algorithm can beat.
// Cost.  What the busiest cable carries, and the way of the first segment along the deepest tree.
#include "algorithms/draft.h"
#include "algorithms/forest.h"
#include "algorithms/packing.h"
#include "algorithms/ring.h"

namespace tbccl::algorithms {

namespace {

constexpr int kChunks = 24;  // reaches 96 % of the bound, where 4 reach 85 %

Forest packed(const schedule::Basis& basis, const std::vector<int>& blocks) {
  const Graph graph(basis);
  Forest forest;
  if (graph.size <= kMostBlockTrees) {
    forest = pack(graph, blocks);
  } else {
    std::vector<int64_t> load(2 * graph.edges.size(), 0);
    const int root = blocks.front() < 0 ? centre(graph) : blocks.front();
    forest.trees = {{root, 0, 1, shortest_tree(graph, root, load)}};
  }
  if (blocks.front() < 0) forest.chunks = kChunks;
  return forest;
}

bool too_many(const Collective& collective, int size) {
  return size > kMostBlockTrees && forest_blocks(collective, size) > 1;
}

}  // namespace

Schedule make_spanning(const Collective& collective, int rank, int size,
                       const schedule::Basis& basis) {
  if (size == 1) return make_alone("spanning", collective);
  if (too_many(collective, size)) return make_ring_blocks(collective, rank, size, basis);
  return make_on_trees("spanning", *remembered(packed, collective, basis), collective, rank, size);
}

Cost cost_spanning(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  if (basis.size == 1) return price({}, bytes, basis);
  if (too_many(collective, basis.size)) return cost_ring(collective, bytes, basis);
  return cost_on_trees(*remembered(packed, collective, basis), collective, bytes, basis);
}

}  // namespace tbccl::algorithms
