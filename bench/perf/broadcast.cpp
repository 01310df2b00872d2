// Broadcast: every rank receives the root's vector.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclBroadcast(work.send, work.recv, work.count, work.type, work.root, work.job.comm,
                        next_request(requests));
}

void expected(const Data& data, int, int root, uint64_t first, uint64_t count, void* out) {
  fill_bytes(data.seed, root, first * data.type.bytes, count * data.type.bytes, out);
}

double bus_factor(int) { return 1.0; }

}  // namespace

const CollectiveTest kBroadcast = {"broadcast",      false,   true,     true,
                                   one_vector,       run,     expected, bus_factor,
                                   tbcclOpBroadcast, one_each};

}  // namespace tbccl::perf
