// More than 2^31 elements: two ranks in this process, int8, in place, every element compared.
//
//   large-counts [OPERATION]...      all_reduce broadcast all_gather reduce_scatter sendrecv
//
// Takes 4 GiB of memory, and 8 GiB for all_gather and reduce_scatter.
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tbccl/tbccl.h"

namespace {

constexpr size_t kCount = (size_t{1} << 31) + 3;
constexpr int kRanks = 2;

// Neither a power of two nor 251 elements divide into equal stretches.
int8_t value(int rank, size_t i) {
  return static_cast<int8_t>(i % 251 + (i >> 20) + static_cast<size_t>(rank) * 77);
}
int8_t sum(size_t i) { return static_cast<int8_t>(value(0, i) + value(1, i)); }

struct Rank {
  tbcclComm_t comm = nullptr;
  int rank = 0;
  int8_t* data = nullptr;
  std::string trouble;

  bool good(tbcclResult_t result) {
    if (result != tbcclSuccess) trouble = tbcclGetLastError(comm);
    return trouble.empty();
  }
  template <class Expected>
  void compare(size_t begin, size_t count, Expected expected) {
    for (size_t i = 0; i < count && trouble.empty(); ++i) {
      if (data[begin + i] == expected(i)) continue;
      trouble = "element " + std::to_string(begin + i) + " is " + std::to_string(data[begin + i]) +
                ", should be " + std::to_string(expected(i));
    }
  }
  void give(size_t begin, size_t count, size_t first) {
    for (size_t i = 0; i < count; ++i) data[begin + i] = value(rank, first + i);
  }
};

void all_reduce(Rank& r) {
  r.give(0, kCount, 0);
  if (!r.good(tbcclAllReduce(r.data, r.data, kCount, tbcclInt8, tbcclSum, r.comm, nullptr))) return;
  r.compare(0, kCount, sum);
}

void broadcast(Rank& r) {
  r.give(0, kCount, 0);
  if (!r.good(tbcclBroadcast(r.data, r.data, kCount, tbcclInt8, 1, r.comm, nullptr))) return;
  r.compare(0, kCount, [](size_t i) { return value(1, i); });
}

void all_gather(Rank& r) {
  int8_t* const own = r.data + static_cast<size_t>(r.rank) * kCount;
  r.give(static_cast<size_t>(r.rank) * kCount, kCount, 0);
  if (!r.good(tbcclAllGather(own, r.data, kCount, tbcclInt8, r.comm, nullptr))) return;
  for (int rank = 0; rank < kRanks; ++rank) {
    r.compare(static_cast<size_t>(rank) * kCount, kCount, [=](size_t i) { return value(rank, i); });
  }
}

void reduce_scatter(Rank& r) {
  const size_t own = static_cast<size_t>(r.rank) * kCount, other = kCount - own;
  r.give(0, kRanks * kCount, 0);
  if (!r.good(
          tbcclReduceScatter(r.data, r.data + own, kCount, tbcclInt8, tbcclSum, r.comm, nullptr))) {
    return;
  }
  r.compare(own, kCount, [=](size_t i) { return sum(own + i); });
  r.compare(other, kCount, [&](size_t i) { return value(r.rank, other + i); });
}

// There and back in the same memory: rank 1 returns what it got.
void sendrecv(Rank& r) {
  if (r.rank == 0) {
    r.give(0, kCount, 0);
    if (!r.good(tbcclSend(r.data, kCount, tbcclInt8, 1, 0, r.comm, nullptr))) return;
    std::memset(r.data, 0, kCount);
    r.good(tbcclRecv(r.data, kCount, tbcclInt8, 1, 1, r.comm, nullptr));
  } else {
    if (!r.good(tbcclRecv(r.data, kCount, tbcclInt8, 0, 0, r.comm, nullptr))) return;
    r.good(tbcclSend(r.data, kCount, tbcclInt8, 0, 1, r.comm, nullptr));
  }
  r.compare(0, kCount, [](size_t i) { return value(0, i); });
}

struct Operation {
  const char* name;
  void (*run)(Rank&);
};
constexpr Operation kOperations[] = {{"all_reduce", all_reduce},
                                     {"broadcast", broadcast},
                                     {"all_gather", all_gather},
                                     {"reduce_scatter", reduce_scatter},
                                     {"sendrecv", sendrecv}};

// "" or what went wrong. Memory is given back in between.
std::string run(const Operation& operation) {
  tbcclComm_t comms[kRanks] = {};
  if (tbcclCommInitAll(comms, kRanks) != tbcclSuccess) return tbcclGetLastError(nullptr);
  Rank ranks[kRanks];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Rank& r = ranks[rank];
      r.comm = comms[rank];
      r.rank = rank;
      void* const memory =
          mmap(nullptr, kRanks * kCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
      if (memory == MAP_FAILED) {
        r.trouble = "no memory";
        tbcclCommAbort(r.comm);
      } else {
        r.data = static_cast<int8_t*>(memory);
        operation.run(r);
        munmap(memory, kRanks * kCount);
      }
      tbcclCommDestroy(r.comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Rank& r : ranks) {
    if (!r.trouble.empty()) return "rank " + std::to_string(r.rank) + ": " + r.trouble;
  }
  return "";
}

bool asked_for(const Operation& operation, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], operation.name) == 0) return true;
  }
  return argc == 1;
}

}  // namespace

int main(int argc, char** argv) {
  int runs = 0;
  for (const Operation& operation : kOperations) {
    if (!asked_for(operation, argc, argv)) continue;
    const std::string trouble = run(operation);
    std::printf("%s of %zu int8: %s\n", operation.name, kCount,
                trouble.empty() ? "right" : trouble.c_str());
    std::fflush(stdout);
    if (!trouble.empty()) return 1;
    ++runs;
  }
  if (runs == 0) std::fprintf(stderr, "usage: large-counts [OPERATION]...\n");
  return runs == 0 ? 2 : 0;
}
