// The collectives of tbccl; joins the job that TBCCL_RANK, TBCCL_SIZE and TBCCL_RENDEZVOUS
// describe. With PEERS_MEMORY=tbcclMemAlloc the buffers are the library's. `peer_tbccl
// --has-memory` succeeds if this library can do that.
#include "tbccl/tbccl.h"

#include <dlfcn.h>

#include <cstring>

#include "sweep.h"

namespace {

tbcclComm_t communicator = nullptr;
int rank = 0;
int ranks = 1;

void check(tbcclResult_t result) {
  if (result == tbcclSuccess) return;
  peers::fail(std::string(tbcclGetErrorString(result)) + ": " + tbcclGetLastError(communicator));
}

void all_reduce(const peers::Call& call) {
  check(tbcclAllReduce(call.recv, call.recv, call.count, tbcclFloat32, tbcclSum, communicator,
                       nullptr));
}

void broadcast(const peers::Call& call) {
  check(tbcclBroadcast(call.recv, call.recv, call.count, tbcclFloat32, call.index % ranks,
                       communicator, nullptr));
}

void reduce(const peers::Call& call) {
  check(tbcclReduce(call.send, call.recv, call.count, tbcclFloat32, tbcclSum, call.index % ranks,
                    communicator, nullptr));
}

void all_gather(const peers::Call& call) {
  check(
      tbcclAllGather(call.send, call.recv, call.block(ranks), tbcclFloat32, communicator, nullptr));
}

void reduce_scatter(const peers::Call& call) {
  check(tbcclReduceScatter(call.send, call.recv, call.block(ranks), tbcclFloat32, tbcclSum,
                           communicator, nullptr));
}

void all_to_all(const peers::Call& call) {
  check(
      tbcclAllToAll(call.send, call.recv, call.block(ranks), tbcclFloat32, communicator, nullptr));
}

void gather(const peers::Call& call) {
  check(tbcclGather(call.send, call.recv, call.block(ranks), tbcclFloat32, call.index % ranks,
                    communicator, nullptr));
}

void scatter(const peers::Call& call) {
  check(tbcclScatter(call.send, call.recv, call.block(ranks), tbcclFloat32, call.index % ranks,
                     communicator, nullptr));
}

void scan(const peers::Call& call) {
  check(tbcclScan(call.send, call.recv, call.count, tbcclFloat32, tbcclSum, communicator, nullptr));
}

void send(const peers::Call& call, int peer) {
  check(tbcclSend(call.send, call.count, tbcclFloat32, peer, 0, communicator, nullptr));
}

void recv(const peers::Call& call, int peer) {
  check(tbcclRecv(call.recv, call.count, tbcclFloat32, peer, 0, communicator, nullptr));
}

void ping_pong(const peers::Call& call) {
  if (rank % 2 == 0) send(call, peers::partner(rank));
  recv(call, peers::partner(rank));
  if (rank % 2 != 0) send(call, peers::partner(rank));
}

void exchange(const peers::Call& call) {
  check(tbcclGroupStart());
  send(call, peers::next(rank, ranks));
  recv(call, peers::previous(rank, ranks));
  check(tbcclGroupEnd());
}

// Looked up at run time: the same driver measures libraries that do not have them.
struct Memory {
  tbcclResult_t (*allocate)(void** memory, size_t bytes) =
      reinterpret_cast<decltype(allocate)>(dlsym(RTLD_DEFAULT, "tbcclMemAlloc"));
  tbcclResult_t (*release)(void* memory) =
      reinterpret_cast<decltype(release)>(dlsym(RTLD_DEFAULT, "tbcclMemFree"));

  bool exists() const { return allocate != nullptr && release != nullptr; }

  void serve(peers::Library* library) const {
    if (!exists()) peers::fail("this libtbccl has no tbcclMemAlloc");
    library->allocate = [*this](size_t bytes) {
      void* memory = nullptr;
      check(allocate(&memory, bytes));
      return static_cast<float*>(memory);
    };
    library->release = [*this](float* memory) { check(release(memory)); };
  }
};

}  // namespace

int main(int argc, char** argv) {
  const Memory memory;
  if (argc > 1 && std::strcmp(argv[1], "--has-memory") == 0) return memory.exists() ? 0 : 1;
  check(tbcclCommInitEnv(&communicator, nullptr));
  check(tbcclCommUserRank(communicator, &rank));
  check(tbcclCommCount(communicator, &ranks));
  peers::Library library;
  library.rank = rank;
  library.ranks = ranks;
  library.barrier = [] { check(tbcclBarrier(communicator, nullptr)); };
  library.broadcast = [](int* value) {
    check(tbcclBroadcast(value, value, 1, tbcclInt32, 0, communicator, nullptr));
  };
  library.collectives = {
      {"all_reduce", all_reduce},
      {"broadcast", broadcast},
      {"barrier", [](const peers::Call&) { check(tbcclBarrier(communicator, nullptr)); }},
      {"reduce", reduce},
      {"all_gather", all_gather},
      {"reduce_scatter", reduce_scatter},
      {"all_to_all", all_to_all},
      {"gather", gather},
      {"scatter", scatter},
      {"scan", scan},
      {"ping_pong", ping_pong},
      {"exchange", exchange}};
  if (std::getenv("PEERS_MEMORY") != nullptr) memory.serve(&library);
  peers::Sweep(library).run();
  check(tbcclCommDestroy(communicator));
}
