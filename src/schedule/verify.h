// The proof that the schedules of all ranks together do what they should.
//
// Symbolic execution in the worst order that the engine and the network may choose: a message
// moves only when its send and its receive are both open, a send is released only by the
// completion of its receive, nothing streams, rings of scratch hold next to nothing, and no more
// than kOpenIterations of a phase are open. What cannot get stuck then cannot get stuck.
//
// Proven: messages meet one to one with equal lengths; everything completes; every piece of every
// output is the finished combination of every contribution that belongs there exactly once, by the
// same expression on all ranks that have it, in rank order where the schedule claims it (where data
// is only moved: the right rank's right piece); send buffers and blocks that a user's buffer does
// not hold are not written; nothing unwritten is read; with variable counts messages are within one
// block, the same at both ends; and for every rank, two steps that touch
// the same place, one of them writing, are ordered byte by byte by dependencies of that rank
// alone, where a send holds its range until it is released.
#pragma once

#include <span>

#include "base/status.h"
#include "schedule/schedule.h"

namespace tbccl::schedule {

// all_ranks[r] is rank r's schedule. InternalError says which rank, phase and iteration is wrong.
Status verify(std::span<const Schedule> all_ranks, const Collective& collective);

// The same where ranks differ in what is local to them (in_place).
Status verify(std::span<const Schedule> all_ranks, std::span<const Collective> collectives);

class Steps;

// The last part of the proof, for one rank. Buffers: see Collective::in_place.
Status verify_order(const Steps& steps, const Collective& collective);

}  // namespace tbccl::schedule
