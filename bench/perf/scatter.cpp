// Scatter: every rank receives its block of the root's.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclScatter(work.send, work.recv, work.count, work.type, work.root, work.job.comm,
                      next_request(requests));
}

void expected(const Data& data, int rank, int root, uint64_t first, uint64_t count, void* out) {
  fill_blocks(
      data, first, count, out, [=](int) { return root; }, [=](int) { return rank; });
}

Extent extent(const Job& job, uint64_t count, int root) {
  if (job.rank != root) return {0, count, 0, 0};
  return {static_cast<uint64_t>(job.ranks) * count, count, 0,
          static_cast<uint64_t>(job.rank) * count};
}

}  // namespace

const CollectiveTest kScatter = {"scatter", false,    true,        true,           block_each,
                                 run,       expected, all_but_own, tbcclOpScatter, extent};

}  // namespace tbccl::perf
