// Forests that were made before: plans of one communicator ask for the same few again and again,
// once a size and once a rank.
#pragma once

#include <memory>

#include "algorithms/trees.h"

namespace tbccl::algorithms {

// make(basis, blocks), where blocks[b] is the root of block b's trees (forest_root), or what it
// returned for the same cables, hosts, link costs and blocks. A memo of each thread, of a few.
std::shared_ptr<const Forest> remembered(Forest (*make)(const schedule::Basis&,
                                                        const std::vector<int>& blocks),
                                         const schedule::Collective& collective,
                                         const schedule::Basis& basis);

// More ranks than this have no trees of their own for every block: those would be as many messages
// as there are pairs, and their operations go around the ring.
inline constexpr int kMostBlockTrees = 64;

}  // namespace tbccl::algorithms
