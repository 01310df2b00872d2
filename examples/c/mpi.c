/* tbccl inside an MPI program: MPI starts the ranks and brings them together, tbccl reduces.
 *   mpirun -n 4 ./mpi */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tbccl/tbccl.h>

/* tbccl asks for an all-gather of a few bytes while it starts: MPI_Allgather is one. */
static int allgather(void *context, const void *send, void *recv, size_t bytes) {
  return MPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, *(MPI_Comm *)context);
}

static void check(tbcclResult_t result, const char *what, tbcclComm_t comm) {
  if (result == tbcclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, tbcclGetErrorString(result), tbcclGetLastError(comm));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What rank contributes to element i: small integers, whose sums float32 holds exactly. */
static float contribution(int rank, size_t i) { return (float)((i * 7 + (size_t)rank * 13) % 101); }

int main(int argc, char **argv) {
  MPI_Comm world = MPI_COMM_WORLD;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);

  tbcclComm_t comm;
  check(tbcclCommInitExchange(&comm, size, rank, allgather, &world, NULL), "tbcclCommInitExchange", NULL);

  int wrong = 0;
  for (size_t count = 1; count <= 1u << 20; count *= 32) {
    float *values = malloc(count * sizeof *values);
    if (values == NULL) MPI_Abort(world, 1);
    for (size_t i = 0; i < count; i++) values[i] = contribution(rank, i);
    check(tbcclAllReduce(values, values, count, tbcclFloat32, tbcclSum, comm, NULL), "tbcclAllReduce", comm);
    for (size_t i = 0; i < count; i++) {
      float expected = 0;
      for (int r = 0; r < size; r++) expected += contribution(r, i);
      wrong += values[i] != expected;
    }
    free(values);
  }
  check(tbcclCommDestroy(comm), "tbcclCommDestroy", NULL);

  int all_wrong = 0;
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, world);
  if (rank == 0) printf("%d ranks, 5 sizes, %d wrong elements\n", size, all_wrong);
  MPI_Finalize();
  return all_wrong != 0;
}
