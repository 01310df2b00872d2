/* Every rank contributes its number plus one; every rank gets the sum.
 *   one rank:   ./allreduce
 *   four ranks: for r in 0 1 2 3; do
 *                 TBCCL_RANK=$r TBCCL_SIZE=4 TBCCL_RENDEZVOUS=127.0.0.1:29400 ./allreduce & done; wait */
#include <stdio.h>
#include <tbccl/tbccl.h>

enum { kCount = 1024 };

static int failed(const char *what, tbcclComm_t comm, tbcclResult_t result) {
  fprintf(stderr, "%s: %s: %s\n", what, tbcclGetErrorString(result), tbcclGetLastError(comm));
  return 1;
}

int main(void) {
  tbcclComm_t comm;
  tbcclResult_t result = tbcclCommInitEnv(&comm, NULL);
  if (result != tbcclSuccess) return failed("tbcclCommInitEnv", NULL, result);

  int rank, size;
  tbcclCommUserRank(comm, &rank);
  tbcclCommCount(comm, &size);

  float values[kCount];
  for (int i = 0; i < kCount; i++) values[i] = (float)(rank + 1);
  result = tbcclAllReduce(values, values, kCount, tbcclFloat32, tbcclSum, comm, NULL);
  if (result != tbcclSuccess) return failed("tbcclAllReduce", comm, result);

  printf("rank %d of %d: the sum is %g\n", rank, size, values[0]);
  return tbcclCommDestroy(comm) == tbcclSuccess ? 0 : 1;
}
