// All-reduce: every rank receives the combination of all ranks' vectors.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclAllReduce(work.send, work.recv, work.count, work.type, work.op, work.job.comm,
                        next_request(requests));
}

void expected(const Data& data, int, int, uint64_t first, uint64_t count, void* out) {
  fill_expected(data, first, count, out);
}

double bus_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

}  // namespace

const CollectiveTest kAllReduce = {"all_reduce",     true,    false,    true,
                                   one_vector,       run,     expected, bus_factor,
                                   tbcclOpAllReduce, one_each};

}  // namespace tbccl::perf
