// The part of Bruck's algorithms (bruck.cpp) that has a file of its own.
#pragma once

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

// All-gather, for at least two ranks.
schedule::Schedule make_bruck_gather(const schedule::Collective&, int rank, int size);
Cost cost_bruck_gather(uint64_t bytes, const schedule::Basis&);

}  // namespace tbccl::algorithms
