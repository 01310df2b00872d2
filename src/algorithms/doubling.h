// The part of recursive doubling (doubling.cpp) that has a file of its own.
#pragma once

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

// All-gather, for at least two ranks.
schedule::Schedule make_doubling_blocks(const schedule::Collective&, int rank, int size);
Cost cost_doubling_blocks(uint64_t bytes, const schedule::Basis&);

}  // namespace tbccl::algorithms
