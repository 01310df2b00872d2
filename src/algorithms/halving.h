// The part of recursive halving (halving.cpp) that has a file of its own.
#pragma once

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

// Reduce-scatter, for at least two ranks.
schedule::Schedule make_halving_blocks(const schedule::Collective&, int rank, int size,
                                       const schedule::Basis&);
Cost cost_halving_blocks(uint64_t bytes, const schedule::Basis&);

}  // namespace tbccl::algorithms
