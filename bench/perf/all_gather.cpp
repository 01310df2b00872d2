// All-gather: every rank receives the blocks of all ranks.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclAllGather(work.send, work.recv, work.count, work.type, work.job.comm,
                        next_request(requests));
}

void expected(const Data& data, int, int, uint64_t first, uint64_t count, void* out) {
  fill_blocks(
      data, first, count, out, [](int block) { return block; }, [](int) { return 0; });
}

Extent extent(const Job& job, uint64_t count, int) {
  return {count, static_cast<uint64_t>(job.ranks) * count, static_cast<uint64_t>(job.rank) * count,
          0};
}

}  // namespace

const CollectiveTest kAllGather = {"all_gather",     false, false,    true,
                                   block_each,       run,   expected, all_but_own,
                                   tbcclOpAllGather, extent};

}  // namespace tbccl::perf
