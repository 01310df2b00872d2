// One tree along the cables, as shallow as can be: for small vectors on any cabling.
//
// Plan.  Recursive doubling and binomial trees need cables that a chain, a star or a torus does not
//   have. Here every message is between neighbours:
//
//      all-reduce, barrier     up a tree with the most central rank as its root, and down again
//      broadcast, reduce       a tree of shortest paths from the root
//      all-gather,             one tree of shortest paths for each block; where several parents are
//      reduce-scatter          as near, ranks take the one whose cable has the least to do
//
// Cost.  As many latencies as the farthest rank is away, twice that for an all-reduce.
#include "algorithms/draft.h"
#include "algorithms/forest.h"
#include "algorithms/graph.h"
#include "algorithms/ring.h"

namespace tbccl::algorithms {

namespace {

Forest shortest(const schedule::Basis& basis, const std::vector<int>& blocks) {
  const Graph graph(basis);
  Forest forest;
  std::vector<int64_t> load(2 * graph.edges.size(), 0);
  for (size_t b = 0; b < blocks.size(); b++) {
    const int root = blocks[b] < 0 ? centre(graph) : blocks[b];
    forest.trees.push_back({root, static_cast<int>(b), 1, shortest_tree(graph, root, load)});
  }
  return forest;
}

bool too_many(const Collective& collective, int size) {
  return size > kMostBlockTrees && forest_blocks(collective, size) > 1;
}

}  // namespace

Schedule make_shallow(const Collective& collective, int rank, int size,
                      const schedule::Basis& basis) {
  if (size == 1) return make_alone("shallow", collective);
  if (too_many(collective, size)) return make_ring_blocks(collective, rank, size, basis);
  return make_on_trees("shallow", *remembered(shortest, collective, basis), collective, rank, size);
}

Cost cost_shallow(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  if (basis.size == 1) return price({}, bytes, basis);
  if (too_many(collective, basis.size)) return cost_ring(collective, bytes, basis);
  return cost_on_trees(*remembered(shortest, collective, basis), collective, bytes, basis);
}

}  // namespace tbccl::algorithms
