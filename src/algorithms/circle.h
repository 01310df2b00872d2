// Ranks on a circle who double what they hold in every step, or halve it.
#pragma once

#include <vector>

#include "algorithms/cost.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

// How many of the blocks from its own on a rank holds before each step, and after the last: 1, ...,
// (n + 3) / 4, (n + 1) / 2, n. None is more than twice the one before it.
std::vector<int> growth(int size);

// `count` blocks from `first` on, around the circle: one range, or two where they pass its end.
std::vector<Range> on_circle(int first, int count, int size);

// The messages of all steps, of `block` bytes a block: steps, latency, wire and moved bytes, the
// same forwards and backwards.
Load circle_load(double block, const schedule::Basis& basis);

}  // namespace tbccl::algorithms
