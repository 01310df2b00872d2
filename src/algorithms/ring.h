// The part of the ring (ring.cpp) that has a file of its own.
#pragma once

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

// All-gather and reduce-scatter, for at least two ranks.
schedule::Schedule make_ring_blocks(const schedule::Collective&, int rank, int size,
                                    const schedule::Basis&);

}  // namespace tbccl::algorithms
