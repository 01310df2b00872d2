// All-gather-v: every rank receives the blocks of all ranks, of unequal sizes.
#include "uneven.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  const std::vector<size_t> counts = blocks_of(work.job, work.count).counts();
  return tbcclAllGatherV(work.send, counts[static_cast<size_t>(work.job.rank)], work.recv,
                         counts.data(), nullptr, work.type, work.job.comm, next_request(requests));
}

void expected(const Data& data, int, int, uint64_t first, uint64_t count, void* out) {
  fill_uneven(
      data, blocks_of(data), first, count, out, [](int block) { return block; },
      [](int) { return uint64_t{0}; });
}

Extent extent(const Job& job, uint64_t count, int) {
  const UnevenBlocks blocks = blocks_of(job, count);
  return {blocks.size(job.rank), blocks.total(), blocks.begin(job.rank), 0};
}

}  // namespace

const CollectiveTest kAllGatherV = {"all_gather_v",    false, false,    true,
                                    uneven_blocks,     run,   expected, all_but_own,
                                    tbcclOpAllGatherV, extent};

}  // namespace tbccl::perf
