// Scan and exclusive scan: every rank receives the combination of the vectors of the ranks up to
// its own, or before it.
#include "collective.h"

namespace tbccl::perf {
namespace {

tbcclResult_t run_scan(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclScan(work.send, work.recv, work.count, work.type, work.op, work.job.comm,
                   next_request(requests));
}

tbcclResult_t run_exscan(const Work& work, std::vector<tbcclRequest_t>* requests) {
  return tbcclExScan(work.send, work.recv, work.count, work.type, work.op, work.job.comm,
                     next_request(requests));
}

void up_to_own(const Data& data, int rank, int, uint64_t first, uint64_t count, void* out) {
  fill_prefix(data, rank + 1, first, count, out);
}

void before_own(const Data& data, int rank, int, uint64_t first, uint64_t count, void* out) {
  fill_prefix(data, rank, first, count, out);
}

double bus_factor(int) { return 1.0; }

// Rank 0 receives nothing.
Extent all_but_first(const Job& job, uint64_t count, int) {
  return {count, job.rank == 0 ? 0 : count, 0, 0};
}

}  // namespace

const CollectiveTest kScan = {"scan",   true,      false,      true,        one_vector,
                              run_scan, up_to_own, bus_factor, tbcclOpScan, one_each};
const CollectiveTest kExScan = {"exscan",   true,       false,      true,          one_vector,
                                run_exscan, before_own, bus_factor, tbcclOpExScan, all_but_first};

}  // namespace tbccl::perf
