// Scatter-v: every rank receives its block of the root's, of unequal sizes.
#include "uneven.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  const std::vector<size_t> counts = blocks_of(work.job, work.count).counts();
  return tbcclScatterV(work.send, counts.data(), nullptr, work.recv,
                       counts[static_cast<size_t>(work.job.rank)], work.type, work.root,
                       work.job.comm, next_request(requests));
}

void expected(const Data& data, int rank, int root, uint64_t first, uint64_t count, void* out) {
  const uint64_t element = data.type.bytes;
  fill_moved(data.seed, root, (blocks_of(data).begin(rank) + first) * element, count * element,
             out);
}

Extent extent(const Job& job, uint64_t count, int root) {
  const UnevenBlocks blocks = blocks_of(job, count);
  if (job.rank != root) return {0, blocks.size(job.rank), 0, 0};
  return {blocks.total(), blocks.size(job.rank), 0, blocks.begin(job.rank)};
}

}  // namespace

const CollectiveTest kScatterV = {"scatter_v",     false, true,     true,
                                  uneven_blocks,   run,   expected, all_but_own,
                                  tbcclOpScatterV, extent};

}  // namespace tbccl::perf
