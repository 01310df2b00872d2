// One line of the table: an operation timed and verified at one size.
#pragma once

#include "buffers.h"
#include "collective.h"
#include "options.h"
#include "result.h"

namespace tbccl::perf {

// What a sweep keeps from size to size.
struct Bench {
  const Options* options = nullptr;
  const CollectiveTest* collective = nullptr;
  Job job;
  Buffer send, recv;
  uint64_t seed = 0;  // equal on all ranks; goes on with every verified call
};

// A type with an operator made for it (`code` differs from the operator's own for mulsum).
struct Case {
  Type type;
  Operator op;
  tbcclRedOp_t code = tbcclSum;
  int root = 0;
};

// Collective over the job. Wrong data is a figure in the row, not an error.
Status measure_row(Bench& bench, const Case& what, uint64_t bytes, Row* row);

}  // namespace tbccl::perf
