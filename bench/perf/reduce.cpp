// Reduce: the root receives the combination of all vectors.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclReduce(work.send, work.recv, work.count, work.type, work.op, work.root, work.job.comm,
                     next_request(requests));
}

void expected(const Data& data, int, int, uint64_t first, uint64_t count, void* out) {
  fill_expected(data, first, count, out);
}

double bus_factor(int) { return 1.0; }

Extent extent(const Job& job, uint64_t count, int root) {
  return {count, job.rank == root ? count : 0, 0, 0};
}

}  // namespace

const CollectiveTest kReduce = {"reduce", true,     true,       true,          one_vector,
                                run,      expected, bus_factor, tbcclOpReduce, extent};

}  // namespace tbccl::perf
