// Small collectives of one group that are carried out as one.
//
// Whether calls are joined follows from what is the same on all ranks: operation, count, type,
// operator, root, plan. So ranks must put the same collectives into the same groups; a rank that
// does not is found by the fingerprint, which tells joined calls from others.
//
// Bits: the joined call takes the plan of its calls, which must be one, and one in which every
// element takes the same way (a single piece): nothing is combined in another order than in a call
// alone.
#pragma once

#include <vector>

#include "engine/engine.h"

namespace tbccl::comm {

inline constexpr uint64_t kMostJoined = 4096;           // bytes of each
inline constexpr uint64_t kMostJoinedTogether = 65536;  // and of all

// Calls of one communicator that follow each other: `next` may go with `first`, and others that
// may.
bool joins(const engine::Call& first, const engine::Call& next);
// The one call; `calls` has two or more.
engine::Call joined(const std::vector<const engine::Call*>& calls);

}  // namespace tbccl::comm
