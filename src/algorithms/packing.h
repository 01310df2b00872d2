// Spanning trees packed into a cabling: how much of a block goes over which tree, so that the
// busiest link is done as early as can be.
//
// The linear program.  Each tree t of a block has a share x(t). Every block gets the same sum L of
//   shares, no link gets more than its capacity c, and L is to be as large as possible:
//
//       L <= sum of x(t) over the trees of each block,     sum over trees t on link l of x(t) <=
//       c(l)
//
//   An all-reduce sends along a tree both ways, so its links are edges and its trees have no
//   direction; its optimum is that of Tutte and Nash-Williams. In all others links are arcs and
//   the trees lead away from a root, or towards it, which is the same mirrored; theirs is Edmonds'.
// How.  There are too many trees to write down, but the simplex method asks for one at a time: the
//   cheapest where links cost what the program's duals say they are worth, which is a minimum
//   spanning tree. Everything is in whole numbers: the inverse of the basis is kept as integers
//   over one common denominator (Edmonds' pivots), ties are broken lexicographically, so nothing
//   cycles. It may be stopped at any time: what it holds then is a packing, if not the best.
#pragma once

#include "algorithms/graph.h"

namespace tbccl::algorithms {

// blocks[b]: the root of block b's trees, -1: edges both ways and any root (then it must be the
// only block). Groups of up to kExactPackingRanks ranks get the best packing, larger ones a fair
// one.
Forest pack(const Graph& graph, const std::vector<int>& blocks);

inline constexpr int kExactPackingRanks = 8;
inline constexpr int kMostPackedPieces = 240;  // of a block; the shares are rounded to these

}  // namespace tbccl::algorithms
