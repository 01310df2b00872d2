// All-to-all: every rank receives its block from every rank.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclAllToAll(work.send, work.recv, work.count, work.type, work.job.comm,
                       next_request(requests));
}

void expected(const Data& data, int rank, int, uint64_t first, uint64_t count, void* out) {
  fill_blocks(
      data, first, count, out, [](int block) { return block; }, [=](int) { return rank; });
}

Extent extent(const Job& job, uint64_t count, int) {
  return {static_cast<uint64_t>(job.ranks) * count, static_cast<uint64_t>(job.ranks) * count, 0, 0};
}

}  // namespace

const CollectiveTest kAllToAll = {"alltoall", false,       false,           true,  block_each, run,
                                  expected,   all_but_own, tbcclOpAllToAll, extent};

}  // namespace tbccl::perf
