// One rank's part of a run: joins the job, goes over all cases and sizes, reports.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace tbccl::perf {

inline constexpr int kExitWrongData = 1;
inline constexpr int kExitError = 2;

// Returns the exit status of the process.
int run_rank(const Options& options, const std::vector<std::string>& arguments);

}  // namespace tbccl::perf
