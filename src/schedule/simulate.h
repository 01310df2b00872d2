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

struct TracedStep {
  int32_t step = 0;  // see Steps
  double begin = 0;  // ns, when its first segment began
  double end = 0;    // ns, when it was complete
};

struct Simulation {
  double ns = 0;                  // when the last rank has finished
  std::vector<double> finish;     // when each rank has
  int steps = 0;                  // longest chain of messages that wait for each other
  int64_t messages = 0;           // of all ranks
  int32_t actors = 0;             // ranks that were played; the others behave like one of them
  std::vector<TracedStep> trace;  // of SimulateOptions::trace
};

struct SimulateOptions {
  int32_t trace = -1;  // the rank whose steps are noted; -1: nobody's
  // Where there are more messages than this, one rank of each class of ranks that behave alike is
  // played (fold.h).
  int64_t fold_above = 200'000;
  // More are refused: minutes, and gigabytes.
  int64_t most_messages = 2'000'000;
  int64_t most_local = 4'000'000;  // likewise of steps that copy, fold and scale
};

// all_ranks[r] is rank r's schedule; `count` as a caller of the operation gives it: elements of
// one block. InternalError if they do not fit together or get stuck, InvalidArgument if there are
// too many messages to play. Seconds for a million messages; four thousand ranks on a regular
// cabling take a second.
Status simulate(std::span<const Schedule> all_ranks, const Collective& collective,
                const Basis& basis, uint64_t count, uint32_t element, Simulation* result,
                const SimulateOptions& options = {});

}  // namespace tbccl::schedule
