// --explain: what would run, and why.
#pragma once

#include "options.h"

namespace tbccl::perf {

// Prints, for every size of the sweep, the candidate algorithms with their predicted times and the
// choice, for the job that the options and the environment describe. Returns an exit status.
int explain(const Options& options);

}  // namespace tbccl::perf
