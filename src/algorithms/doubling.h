// The parts of recursive doubling (doubling.cpp) that have files of their own.
#pragma once

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

// All-gather, for at least two ranks.
schedule::Schedule make_doubling_blocks(const schedule::Collective&, int rank, int size);
Cost cost_doubling_blocks(uint64_t bytes, const schedule::Basis&);
// Scans, likewise.
schedule::Schedule make_doubling_scan(const schedule::Collective&, int rank, int size);
Cost cost_doubling_scan(const schedule::Collective&, uint64_t bytes, const schedule::Basis&);

}  // namespace tbccl::algorithms
