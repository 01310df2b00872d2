// Gather: the root receives the blocks of all ranks.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclGather(work.send, work.recv, work.count, work.type, work.root, work.job.comm,
                     next_request(requests));
}

void expected(const Data& data, int, int, uint64_t first, uint64_t count, void* out) {
  fill_blocks(
      data, first, count, out, [](int block) { return block; }, [](int) { return 0; });
}

Extent extent(const Job& job, uint64_t count, int root) {
  if (job.rank != root) return {count, 0, 0, 0};
  return {count, static_cast<uint64_t>(job.ranks) * count, static_cast<uint64_t>(job.rank) * count,
          0};
}

}  // namespace

const CollectiveTest kGather = {"gather", false,    true,        true,          block_each,
                                run,      expected, all_but_own, tbcclOpGather, extent};

}  // namespace tbccl::perf
