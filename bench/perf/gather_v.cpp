// Gather-v: the root receives the blocks of all ranks, of unequal sizes.
#include "uneven.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  const std::vector<size_t> counts = blocks_of(work.job, work.count).counts();
  return tbcclGatherV(work.send, counts[static_cast<size_t>(work.job.rank)], work.recv,
                      counts.data(), nullptr, work.type, work.root, work.job.comm,
                      next_request(requests));
}

void expected(const Data& data, int, int, uint64_t first, uint64_t count, void* out) {
  fill_uneven(
      data, blocks_of(data), first, count, out, [](int block) { return block; },
      [](int) { return uint64_t{0}; });
}

Extent extent(const Job& job, uint64_t count, int root) {
  const UnevenBlocks blocks = blocks_of(job, count);
  if (job.rank != root) return {blocks.size(job.rank), 0, 0, 0};
  return {blocks.size(job.rank), blocks.total(), blocks.begin(job.rank), 0};
}

}  // namespace

const CollectiveTest kGatherV = {"gather_v", false,    true,        true,           uneven_blocks,
                                 run,        expected, all_but_own, tbcclOpGatherV, extent};

}  // namespace tbccl::perf
