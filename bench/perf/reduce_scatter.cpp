// Reduce-scatter: every rank receives its block of the combination of all vectors.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclReduceScatter(work.send, work.recv, work.count, work.type, work.op, work.job.comm,
                            next_request(requests));
}

void expected(const Data& data, int rank, int, uint64_t first, uint64_t count, void* out) {
  fill_expected(data, static_cast<uint64_t>(rank) * data.block + first, count, out);
}

Extent extent(const Job& job, uint64_t count, int) {
  return {static_cast<uint64_t>(job.ranks) * count, count, 0,
          static_cast<uint64_t>(job.rank) * count};
}

}  // namespace

const CollectiveTest kReduceScatter = {"reduce_scatter",     true,  false,    true,
                                       block_each,           run,   expected, all_but_own,
                                       tbcclOpReduceScatter, extent};

}  // namespace tbccl::perf
