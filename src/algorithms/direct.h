// Parts of direct exchange (direct.cpp) that have files of their own.
#pragma once

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

schedule::Schedule make_direct_reduction(const schedule::Collective&, int rank, int size);
schedule::Schedule make_direct_move(const schedule::Collective&, int rank, int size);
// Of everything but all-reduce, barrier and broadcast.
Cost cost_direct_blocks(const schedule::Collective&, uint64_t bytes, const schedule::Basis&);

}  // namespace tbccl::algorithms
