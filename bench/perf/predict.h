// Predictions, without running anything: --simulate and --matrix. Both return the exit status.
#pragma once

#include "options.h"

namespace tbccl::perf {

// Every algorithm of a collective on a topology: its closed form, its simulated time, and the lower
// bound of the cabling; with --steps the steps of one rank.
int simulate(const Options& options);

// Predicted times of the job that would run, sizes by algorithms, for every collective.
int print_matrix(const Options& options);

}  // namespace tbccl::perf
