// Send and receive around a ring: every rank sends to the next one and receives from the one
// before, at the same time.
#include "collective.h"

namespace tbccl::perf {
namespace {

constexpr int kTag = 0;

int previous(const Job& job) { return (job.rank + job.ranks - 1) % job.ranks; }
int next(const Job& job) { return (job.rank + 1) % job.ranks; }

tbcclResult_t exchange(const Work& work, std::vector<tbcclRequest_t>* requests) {
  const tbcclResult_t sent = tbcclSend(work.send, work.count, work.type, next(work.job), kTag,
                                       work.job.comm, next_request(requests));
  if (sent != tbcclSuccess) return sent;
  return tbcclRecv(work.recv, work.count, work.type, previous(work.job), kTag, work.job.comm,
                   next_request(requests));
}

tbcclResult_t run(const Work& work, std::vector<tbcclRequest_t>* requests) {
  if (requests != nullptr) return exchange(work, requests);
  // Both inside one group: no rank blocks in its send before it receives.
  tbcclResult_t result = tbcclGroupStart();
  if (result != tbcclSuccess) return result;
  result = exchange(work, nullptr);
  const tbcclResult_t ended = tbcclGroupEnd();
  return result != tbcclSuccess ? result : ended;
}

void expected(const Data& data, int rank, int, uint64_t first, uint64_t count, void* out) {
  const int from = (rank + data.ranks - 1) % data.ranks;
  fill_bytes(data.seed, from, first * data.type.bytes, count * data.type.bytes, out);
}

double bus_factor(int) { return 1.0; }

}  // namespace

const CollectiveTest kSendRecv = {"sendrecv", false,    false,      false,           one_vector,
                                  run,        expected, bus_factor, tbcclOpSendRecv, one_each};

}  // namespace tbccl::perf
