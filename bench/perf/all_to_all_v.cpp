// All-to-all-v: every rank receives a block from every rank; what rank s sends to rank r has the
// size of block (s + r) mod n, so that every rank moves the same in total, and as much each way
// between any two (which an operation in place needs).
#include "uneven.h"

namespace tbccl::perf {
namespace {

UnevenBlocks blocks_at(int rank, uint64_t unit, int ranks) { return {unit, ranks, rank}; }

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  const std::vector<size_t> counts = blocks_at(work.job.rank, work.count, work.job.ranks).counts();
  return tbcclAllToAllV(work.send, counts.data(), nullptr, work.recv, counts.data(), nullptr,
                        work.type, work.job.comm, next_request(requests));
}

void expected(const Data& data, int rank, int, uint64_t first, uint64_t count, void* out) {
  fill_uneven(
      data, blocks_at(rank, data.block, data.ranks), first, count, out,
      [](int block) { return block; },
      [&](int from) { return blocks_at(from, data.block, data.ranks).begin(rank); });
}

Extent extent(const Job& job, uint64_t count, int) {
  const uint64_t total = blocks_of(job, count).total();
  return {total, total, 0, 0};
}

}  // namespace

const CollectiveTest kAllToAllV = {"alltoall_v",     false, false,    true,
                                   uneven_blocks,    run,   expected, all_but_own,
                                   tbcclOpAllToAllV, extent};

}  // namespace tbccl::perf
