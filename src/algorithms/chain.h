// The part of the chain (chain.cpp) that has a file of its own.
#pragma once

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

// Scans, for at least two ranks.
schedule::Schedule make_chain_scan(const schedule::Collective&, int rank, int size);
Cost cost_chain_scan(const schedule::Collective&, uint64_t bytes, const schedule::Basis&);

}  // namespace tbccl::algorithms
