// All-reduce by tbccl; joins the job that TBCCL_RANK, TBCCL_SIZE and TBCCL_RENDEZVOUS describe.
#include <cstdio>
#include <cstdlib>

#include "sweep.h"
#include "tbccl/tbccl.h"

namespace {

tbcclComm_t communicator = nullptr;

void check(tbcclResult_t result) {
  if (result == tbcclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", tbcclGetErrorString(result), tbcclGetLastError(communicator));
  std::exit(1);
}

}  // namespace

int main() {
  check(tbcclCommInitEnv(&communicator, nullptr));
  peers::Library library;
  check(tbcclCommUserRank(communicator, &library.rank));
  check(tbcclCommCount(communicator, &library.ranks));
  library.all_reduce = [](float* values, size_t count) {
    check(tbcclAllReduce(values, values, count, tbcclFloat32, tbcclSum, communicator, nullptr));
  };
  library.barrier = [] { check(tbcclBarrier(communicator, nullptr)); };
  library.broadcast = [](int* value) {
    check(tbcclBroadcast(value, value, 1, tbcclInt32, 0, communicator, nullptr));
  };
  peers::sweep(library);
  check(tbcclCommDestroy(communicator));
}
