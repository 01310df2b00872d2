// Reduce-scatter-v: every rank receives its block, of unequal sizes, of the combination of all
// vectors.
#include "uneven.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  const std::vector<size_t> counts = blocks_of(work.job, work.count).counts();
  return tbcclReduceScatterV(work.send, counts.data(), nullptr, work.recv,
                             counts[static_cast<size_t>(work.job.rank)], work.type, work.op,
                             work.job.comm, next_request(requests));
}

void expected(const Data& data, int rank, int, uint64_t first, uint64_t count, void* out) {
  fill_expected(data, blocks_of(data).begin(rank) + first, count, out);
}

Extent extent(const Job& job, uint64_t count, int) {
  const UnevenBlocks blocks = blocks_of(job, count);
  return {blocks.total(), blocks.size(job.rank), 0, blocks.begin(job.rank)};
}

}  // namespace

const CollectiveTest kReduceScatterV = {"reduce_scatter_v",    true,  false,    true,
                                        uneven_blocks,         run,   expected, all_but_own,
                                        tbcclOpReduceScatterV, extent};

}  // namespace tbccl::perf
