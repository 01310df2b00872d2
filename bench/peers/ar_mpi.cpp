// All-reduce by an MPI library: Open MPI or MPICH, whichever compiles it.
#include <mpi.h>

#include "sweep.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  peers::Library library;
  MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &library.ranks);
  library.all_reduce = [](float* values, size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  };
  library.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  library.broadcast = [](int* value) { MPI_Bcast(value, 1, MPI_INT, 0, MPI_COMM_WORLD); };
  peers::sweep(library);
  MPI_Finalize();
}
