// -g N: N ranks of one job as processes on this machine.
#pragma once

namespace tbccl::perf {

// Starts this program again as ranks 0 .. ranks-1, waits for all of them, and returns the exit
// status of the run: the first one that is not zero. When a rank dies, or ends with an error, that
// is said, and the others get a few seconds to report what they saw before they are ended too. The
// ranks do not outlive this process.
int run_local_ranks(int ranks, int argc, char** argv);

// To be called by a rank that was started so, first thing: ties its life to that of its starter,
// the process `parent`.
void follow_parent(int parent);

}  // namespace tbccl::perf
