// Every algorithm measured on the current group: --tune and --check-selection. Both are one rank's
// part and return its exit status.
#pragma once

#include "options.h"

namespace tbccl::perf {

// Measures, fits the costs of the closed forms, and writes a tuning file on rank 0, with choices
// where the fitted forms would still choose something slower.
int tune(const Options& options);

// Compares the library's choice with the best measured one, and each size with twice that size.
int check_selection(const Options& options);

}  // namespace tbccl::perf
