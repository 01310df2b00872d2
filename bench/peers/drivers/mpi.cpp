// The collectives of an MPI library: Open MPI or MPICH, whichever compiles it.
#include <mpi.h>

#include "sweep.h"

namespace {

int rank = 0;
int ranks = 1;

void all_reduce(const peers::Call& call) {
  MPI_Allreduce(MPI_IN_PLACE, call.recv, static_cast<int>(call.count), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}

void broadcast(const peers::Call& call) {
  MPI_Bcast(call.recv, static_cast<int>(call.count), MPI_FLOAT, call.index % ranks, MPI_COMM_WORLD);
}

void reduce(const peers::Call& call) {
  MPI_Reduce(call.send, call.recv, static_cast<int>(call.count), MPI_FLOAT, MPI_SUM,
             call.index % ranks, MPI_COMM_WORLD);
}

void all_gather(const peers::Call& call) {
  const int block = static_cast<int>(call.block(ranks));
  MPI_Allgather(call.send, block, MPI_FLOAT, call.recv, block, MPI_FLOAT, MPI_COMM_WORLD);
}

void reduce_scatter(const peers::Call& call) {
  MPI_Reduce_scatter_block(call.send, call.recv, static_cast<int>(call.block(ranks)), MPI_FLOAT,
                           MPI_SUM, MPI_COMM_WORLD);
}

void all_to_all(const peers::Call& call) {
  const int block = static_cast<int>(call.block(ranks));
  MPI_Alltoall(call.send, block, MPI_FLOAT, call.recv, block, MPI_FLOAT, MPI_COMM_WORLD);
}

void gather(const peers::Call& call) {
  const int block = static_cast<int>(call.block(ranks));
  MPI_Gather(call.send, block, MPI_FLOAT, call.recv, block, MPI_FLOAT, call.index % ranks,
             MPI_COMM_WORLD);
}

void scatter(const peers::Call& call) {
  const int block = static_cast<int>(call.block(ranks));
  MPI_Scatter(call.send, block, MPI_FLOAT, call.recv, block, MPI_FLOAT, call.index % ranks,
              MPI_COMM_WORLD);
}

void scan(const peers::Call& call) {
  MPI_Scan(call.send, call.recv, static_cast<int>(call.count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void ping_pong(const peers::Call& call) {
  const int peer = peers::partner(rank), count = static_cast<int>(call.count);
  if (rank % 2 == 0) MPI_Send(call.send, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
  MPI_Recv(call.recv, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank % 2 != 0) MPI_Send(call.send, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
}

void exchange(const peers::Call& call) {
  const int count = static_cast<int>(call.count);
  MPI_Sendrecv(call.send, count, MPI_FLOAT, peers::next(rank, ranks), 0, call.recv, count,
               MPI_FLOAT, peers::previous(rank, ranks), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  peers::Library library;
  library.rank = rank;
  library.ranks = ranks;
  library.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  library.broadcast = [](int* value) { MPI_Bcast(value, 1, MPI_INT, 0, MPI_COMM_WORLD); };
  library.collectives = {{"all_reduce", all_reduce},
                         {"broadcast", broadcast},
                         {"barrier", [](const peers::Call&) { MPI_Barrier(MPI_COMM_WORLD); }},
                         {"reduce", reduce},
                         {"all_gather", all_gather},
                         {"reduce_scatter", reduce_scatter},
                         {"all_to_all", all_to_all},
                         {"gather", gather},
                         {"scatter", scatter},
                         {"scan", scan},
                         {"ping_pong", ping_pong},
                         {"exchange", exchange}};
  peers::Sweep(library).run();
  MPI_Finalize();
}
