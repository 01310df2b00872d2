// The ranks of the job talking among themselves, with tbccl's own operations: figures combined,
// ranks introduced, errors worded.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collective.h"

namespace tbccl::perf {

struct RankInfo {
  int rank = 0;
  int pid = 0;
  std::string host;
};

// Ok, or a Status that says what failed and the library's own sentence about it.
Status checked(tbcclResult_t result, tbcclComm_t comm, const char* what);

Status barrier(const Job& job);
// values[i] = combination over all ranks.
Status combine(const Job& job, tbcclRedOp_t op, std::span<double> values);
Status combine(const Job& job, tbcclRedOp_t op, std::span<uint64_t> values);
// As -a says: 0 rank 0's values, 1 the average, 2 the least, 3 the most.
Status combine_times(const Job& job, int average, std::span<double> values);

Status introduce(const Job& job, std::vector<RankInfo>* ranks);

}  // namespace tbccl::perf
