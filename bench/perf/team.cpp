#include "team.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/formatted.h"

namespace tbccl::perf {
namespace {

// How a rank introduces itself; every rank fills in its own entry of a zeroed table, and the sum
// of the tables is the table.
struct Card {
  int32_t pid;
  char host[60];
};

}  // namespace

Status checked(tbcclResult_t result, tbcclComm_t comm, const char* what) {
  if (result == tbcclSuccess) return {};
  return {result,
          formatted("{}: {} ({})", what, tbcclGetErrorString(result), tbcclGetLastError(comm))};
}

Status barrier(const Job& job) {
  return checked(tbcclBarrier(job.comm, nullptr), job.comm, "barrier");
}

Status combine(const Job& job, tbcclRedOp_t op, std::span<double> values) {
  return checked(tbcclAllReduce(values.data(), values.data(), values.size(), tbcclFloat64, op,
                                job.comm, nullptr),
                 job.comm, "combining the ranks' times");
}

Status combine(const Job& job, tbcclRedOp_t op, std::span<uint64_t> values) {
  return checked(tbcclAllReduce(values.data(), values.data(), values.size(), tbcclUint64, op,
                                job.comm, nullptr),
                 job.comm, "combining the ranks' counts");
}

Status combine_times(const Job& job, int average, std::span<double> values) {
  if (average == 2) return combine(job, tbcclMin, values);
  if (average == 3) return combine(job, tbcclMax, values);
  if (average == 0 && job.rank != 0) std::fill(values.begin(), values.end(), 0.0);
  if (Status status = combine(job, tbcclSum, values); !status.ok()) return status;
  if (average == 1) {
    for (double& value : values) value /= job.ranks;
  }
  return {};
}

Status introduce(const Job& job, std::vector<RankInfo>* ranks) {
  std::vector<Card> table(static_cast<size_t>(job.ranks), Card{});
  Card& mine = table[static_cast<size_t>(job.rank)];
  mine.pid = static_cast<int32_t>(getpid());
  if (gethostname(mine.host, sizeof(mine.host) - 1) != 0) std::strcpy(mine.host, "unknown");
  const Status status =
      checked(tbcclAllReduce(table.data(), table.data(), table.size() * sizeof(Card), tbcclUint8,
                             tbcclSum, job.comm, nullptr),
              job.comm, "introducing the ranks");
  if (!status.ok()) return status;
  ranks->clear();
  for (int rank = 0; rank < job.ranks; ++rank) {
    Card& card = table[static_cast<size_t>(rank)];
    card.host[sizeof(card.host) - 1] = 0;
    ranks->push_back({rank, card.pid, card.host});
  }
  return {};
}

}  // namespace tbccl::perf
