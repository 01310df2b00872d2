// Schedules played in virtual time, over the cabling, hosts and costs of a basis.
//
// The model.  A message moves in segments. A segment takes its sender's processor (cpu_message for
//   the first, cpu_byte a byte), then its link, then what is left of alpha, then its receiver's
//   processor (also gamma a byte where it is combined). A cable, or the channel between two ranks
//   of a host, is a first-come-first-served resource for each direction; ranks with neither share
//   one network each, both ways. A rank has one processor at a time, a host no more than
//   Basis::cores. A segment starts when both its send and its receive are open and all bytes it
//   depends on are there; sends are released by the end of their receive; kOpenIterations of a
//   phase are open.
// Not in it.  Grants, acknowledgements, lost frames, caches, scratch rings that are full.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "schedule/basis.h"
#include "schedule/schedule.h"

namespace tbccl::schedule {

struct Simulation {
  double ns = 0;               // when the last rank has finished
  std::vector<double> finish;  // when each rank has
  int steps = 0;               // longest chain of messages that wait for each other
};

// all_ranks[r] is rank r's schedule; `count` as a caller of the operation gives it: elements of
// one block. InternalError if they do not fit together or get stuck.
// Takes seconds for a million messages; n = 1024 is meant to be used.
Status simulate(std::span<const Schedule> all_ranks, const Collective& collective,
                const Basis& basis, uint64_t count, uint32_t element, Simulation* result);

}  // namespace tbccl::schedule
