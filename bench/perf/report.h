// The table, as people know it from nccl-tests.
#pragma once

#include <vector>

#include "collective.h"
#include "options.h"
#include "result.h"
#include "team.h"

namespace tbccl::perf {

void print_header(const Options& options, const CollectiveTest& collective,
                  const std::vector<RankInfo>& ranks);
void print_row(const Options& options, const Row& row);
void print_footer(const Options& options, const Summary& summary);

}  // namespace tbccl::perf
