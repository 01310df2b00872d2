// Communicators made from communicators: who is in them, what they compute, and that they are
// independent of each other while they share links.
#include <dirent.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>

#include "unit/api/job.h"
#include "unit/api/variables.h"

namespace {

std::string last(tbcclComm_t comm) { return tbcclGetLastError(comm); }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int entries(const char* folder) {
  DIR* const directory = opendir(folder);
  if (directory == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = readdir(directory)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(directory);
  return count - 1;  // the directory itself
}

// Bytes of the process that are allocated, and pages of files and shared memory that it has. What
// the allocator keeps of freed memory depends on everything that ran before, and does not count.
int64_t memory_used() {
  int64_t bytes = 0;
#ifdef __GLIBC__
  const auto allocated = mallinfo2();
  bytes += static_cast<int64_t>(allocated.uordblks + allocated.hblkhd);
#endif
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return bytes;
  long size = 0, pages = 0, shared = 0;
  const int read = std::fscanf(file, "%ld %ld %ld", &size, &pages, &shared);
  std::fclose(file);
  return read == 3 ? bytes + shared * sysconf(_SC_PAGESIZE) : bytes;
}

void expect_ok(tbcclResult_t result, tbcclComm_t comm, Findings& found, const char* what) {
  found.expect(result == tbcclSuccess,
               std::string(what) + ": " + std::to_string(result) + ", " + last(comm));
}

tbcclComm_t split(tbcclComm_t comm, int color, int key, Findings& found) {
  tbcclComm_t child = nullptr;
  expect_ok(tbcclCommSplit(comm, color, key, &child, nullptr), comm, found, "split");
  return child;
}

int rank_of(tbcclComm_t comm) {
  int rank = -1;
  tbcclCommUserRank(comm, &rank);
  return rank;
}

int size_of(tbcclComm_t comm) {
  int size = -1;
  tbcclCommCount(comm, &size);
  return size;
}

// The sum over all ranks of a value of each, at several lengths.
void check_sums(tbcclComm_t comm, int mine, int sum, Findings& found) {
  for (const size_t count : {1, 40, 5000, 300000}) {
    std::vector<int32_t> in(count, mine), out(count, -1);
    expect_ok(tbcclAllReduce(in.data(), out.data(), count, tbcclInt32, tbcclSum, comm, nullptr),
              comm, found, "all-reduce");
    const bool right =
        std::all_of(out.begin(), out.end(), [sum](int32_t value) { return value == sum; });
    found.expect(right, "sum of " + std::to_string(count) + " is wrong");
  }
}

tbcclComm_t checked_split(tbcclComm_t comm, int color, int key, int rank, int size,
                          Findings& found) {
  const tbcclComm_t child = split(comm, color, key, found);
  found.expect(rank_of(child) == rank, "rank is " + std::to_string(rank_of(child)));
  found.expect(size_of(child) == size, "size is " + std::to_string(size_of(child)));
  return child;
}

}  // namespace

TEST_CASE("a communicator is split by colour, and ordered by key") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  Job job(5);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    // Colours 0 and 1 alternate; higher ranks first.
    const int members = rank % 2 == 0 ? 3 : 2;
    const tbcclComm_t child =
        checked_split(comm, rank % 2, -rank, members - 1 - rank / 2, members, found);
    check_sums(child, rank + 1, rank % 2 == 0 ? 1 + 3 + 5 : 2 + 4, found);
    check_sums(comm, rank + 1, 15, found);
    // Equal keys: the parent's order. One rank is left out.
    const tbcclComm_t most = split(comm, rank == 2 ? TBCCL_NOCOLOR : 7, 0, found);
    if (rank == 2) {
      found.expect(most == nullptr, "a rank without a colour got a communicator");
    } else {
      found.expect(rank_of(most) == rank - (rank > 2 ? 1 : 0), "the order has changed");
      check_sums(most, rank, 8, found);
      int root = -1;
      for (int from = 0; from < 4; ++from) {
        root = rank_of(most) == from ? 100 + rank : -1;
        expect_ok(tbcclBroadcast(&root, &root, 1, tbcclInt32, from, most, nullptr), most, found,
                  "broadcast");
        found.expect(root == 100 + from + (from >= 2 ? 1 : 0), "the root is another rank");
      }
      expect_ok(tbcclCommFinalize(most), most, found, "finalize");
      tbcclCommDestroy(most);
    }
    // Alone.
    const tbcclComm_t alone = checked_split(comm, rank, 0, 0, 1, found);
    check_sums(alone, 3, 3, found);
    expect_ok(tbcclCommFinalize(alone), alone, found, "finalize");
    tbcclCommDestroy(alone);
    tbcclCommDestroy(child);
    check_sums(comm, 1, 5, found);
  });
}

TEST_CASE("children have children, and outlive their parents") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  Job job(4);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    tbcclComm_t same = nullptr;
    expect_ok(tbcclCommDup(comm, &same), comm, found, "dup");
    found.expect(rank_of(same) == rank && size_of(same) == 4, "a duplicate differs");
    const tbcclComm_t half = split(same, rank / 2, 0, found);
    tbcclComm_t again = nullptr;
    expect_ok(tbcclCommDup(half, &again), half, found, "dup");
    if (rank % 2 == 0) tbcclCommDestroy(half);
    tbcclCommDestroy(same);
    if (rank < 2) job.leave(rank);
    check_sums(again, rank, rank < 2 ? 1 : 5, found);
    if (rank % 2 != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      tbcclCommDestroy(half);
    }
    expect_ok(tbcclCommFinalize(again), again, found, "finalize");
    tbcclCommDestroy(again);
  });
}

TEST_CASE("messages of one communicator do not meet receives of another") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const tbcclComm_t child = split(comm, 0, -rank, found);  // ranks are reversed
    const int next = (rank + 1) % 3, before = (rank + 2) % 3;
    tbcclRequest_t requests[4] = {};
    int out[2] = {10 + rank, 20 + rank}, in[2] = {};
    tbcclRecv(&in[1], 1, tbcclInt32, TBCCL_ANY_SOURCE, 0, child, &requests[0]);
    tbcclRecv(&in[0], 1, tbcclInt32, TBCCL_ANY_SOURCE, 0, comm, &requests[1]);
    tbcclSend(&out[0], 1, tbcclInt32, next, 0, comm, &requests[2]);
    tbcclSend(&out[1], 1, tbcclInt32, 2 - before, 0, child, &requests[3]);
    expect_ok(tbcclWaitAll(4, requests, 20'000), comm, found, "wait");
    int source = -1;
    tbcclRequestSource(requests[0], &source);
    found.expect(source == 2 - next, "the child's source is " + std::to_string(source));
    found.expect(in[0] == 10 + before, "the parent received " + std::to_string(in[0]));
    found.expect(in[1] == 20 + next, "the child received " + std::to_string(in[1]));
    for (tbcclRequest_t& request : requests) tbcclRequestFree(&request);
    tbcclCommDestroy(child);
  });
}

#ifdef __linux__
TEST_CASE("children open nothing and start nothing, and leave nothing behind") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  constexpr int kRounds = 200, kAtOnce = 40;
  Job job(4);
  const auto round = [&](int rounds, int at_once) {
    job.each([&](int rank, tbcclComm_t comm, Findings& found) {
      for (int i = 0; i < rounds; ++i) {
        const tbcclComm_t child = split(comm, rank % 2, 0, found);
        int value = rank;
        expect_ok(tbcclAllReduce(&value, &value, 1, tbcclInt32, tbcclSum, child, nullptr), child,
                  found, "all-reduce");
        found.expect(value == (rank % 2 == 0 ? 2 : 4), "wrong sum");
        tbcclCommDestroy(child);
      }
      std::vector<tbcclComm_t> children;
      for (int i = 0; i < at_once; ++i) children.push_back(split(comm, 0, i * rank, found));
      for (int i = 0; i < at_once; ++i)
        check_sums(children[static_cast<size_t>(i)], i, 4 * i, found);
      for (tbcclComm_t child : children) tbcclCommDestroy(child);
    });
  };
  round(10, kAtOnce);  // what is made with the first ones is there
  const int descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  const int64_t memory = memory_used();
  std::atomic<bool> counted{true};
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    tbcclComm_t child = split(comm, 0, 0, found);
    check_sums(child, 1, 4, found);
    expect_ok(tbcclBarrier(child, nullptr), child, found, "barrier");
    // The threads of the test itself, one a rank, are among them. One rank counts: its look into
    // the directory is a descriptor, too.
    if (rank == 0 &&
        (entries("/proc/self/fd") > descriptors || entries("/proc/self/task") > threads + 4)) {
      counted.store(false);
    }
    expect_ok(tbcclBarrier(child, nullptr), child, found, "barrier");
    tbcclCommDestroy(child);
  });
  CHECK(counted.load());
  round(kRounds, 1);
  CHECK(entries("/proc/self/fd") == descriptors);
  CHECK(entries("/proc/self/task") == threads);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // A few bytes a communicator that has been are remembered, of four ranks.
  CHECK(memory_used() - memory < 1 << 20);
#else
  (void)memory;
#endif
}
#endif

TEST_CASE("parent and children are used by several threads at once, in any order") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  constexpr int kThreads = 3, kCalls = 60;
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    std::vector<tbcclComm_t> comms{comm};
    for (int i = 1; i < kThreads; ++i) comms.push_back(split(comm, 0, i % 2 * -rank, found));
    std::vector<Findings> inner(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int call = 0; call < kCalls; ++call) {
          std::vector<int32_t> data(call % 7 == 0 ? 20000 : 3, rank + i);
          expect_ok(tbcclAllReduce(data.data(), data.data(), data.size(), tbcclInt32, tbcclSum,
                                   comms[static_cast<size_t>(i)], nullptr),
                    comms[static_cast<size_t>(i)], inner[static_cast<size_t>(i)], "all-reduce");
          inner[static_cast<size_t>(i)].expect(data.back() == 3 + 3 * i, "wrong sum");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Findings& f : inner) {
      found.failures.insert(found.failures.end(), f.failures.begin(), f.failures.end());
    }
    // A-then-B here, B-then-A there.
    for (int call = 0; call < kCalls; ++call) {
      tbcclRequest_t requests[2] = {};
      int32_t data[2] = {rank, 10 * rank};
      for (const int i : {rank % 2, 1 - rank % 2}) {
        expect_ok(tbcclAllReduce(&data[i], &data[i], 1, tbcclInt32, tbcclSum,
                                 comms[static_cast<size_t>(i)], &requests[i]),
                  comms[static_cast<size_t>(i)], found, "all-reduce");
      }
      expect_ok(tbcclWait(requests[rank % 2], -1), comm, found, "wait");
      expect_ok(tbcclWait(requests[1 - rank % 2], -1), comm, found, "wait");
      found.expect(data[0] == 3 && data[1] == 30, "wrong sums");
      for (tbcclRequest_t& request : requests) tbcclRequestFree(&request);
    }
    for (int i = 1; i < kThreads; ++i) tbcclCommDestroy(comms[static_cast<size_t>(i)]);
  });
}

TEST_CASE("several threads split several communicators at once") {
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const tbcclComm_t other = split(comm, 0, 0, found);
    std::vector<Findings> inner(2);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        const tbcclComm_t from = i == 0 ? comm : other;
        Findings& f = inner[static_cast<size_t>(i)];
        for (int round = 0; round < 30; ++round) {
          const tbcclComm_t child = split(from, rank == 0 && i == 1 ? 1 : 0, 0, f);
          int32_t value = 1 + i;
          expect_ok(tbcclAllReduce(&value, &value, 1, tbcclInt32, tbcclSum, child, nullptr), child,
                    f, "all-reduce");
          f.expect(value == size_of(child) * (1 + i), "wrong sum");
          tbcclCommDestroy(child);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Findings& f : inner) {
      found.failures.insert(found.failures.end(), f.failures.begin(), f.failures.end());
    }
    tbcclCommDestroy(other);
  });
}

TEST_CASE("an abort breaks its communicator on all ranks, and no other") {
  const bool parent = GENERATE(false, true);
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
    config.commName = "the aborted one";
    tbcclComm_t child = nullptr;
    expect_ok(tbcclCommSplit(comm, 0, 0, &child, &config), comm, found, "split");
    const tbcclComm_t sibling = split(comm, rank == 2 ? 1 : 0, 0, found);
    const tbcclComm_t aborted = parent ? comm : child, alive = parent ? child : comm;
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      expect_ok(tbcclCommAbort(aborted), aborted, found, "abort");
    } else {
      int32_t value = 0;
      const tbcclResult_t result =
          tbcclAllReduce(&value, &value, 1, tbcclInt32, tbcclSum, aborted, nullptr);
      found.expect(result == tbcclAborted, std::to_string(result) + ": " + last(aborted));
      found.expect(parent || has(last(aborted), "the aborted one"), last(aborted));
    }
    check_sums(alive, rank, 3, found);
    check_sums(sibling, rank, rank == 2 ? 2 : 1, found);
    tbcclResult_t state = tbcclSuccess;
    tbcclCommGetAsyncError(alive, &state);
    found.expect(state == tbcclSuccess, "the other one is broken: " + last(alive));
    tbcclCommDestroy(sibling);
    tbcclCommDestroy(child);
    if (!parent) check_sums(comm, rank, 3, found);
  });
}

TEST_CASE("a rank that is gone from one communicator is missed in it alone") {
  const Variables variables{{"TBCCL_TIMEOUT", "60"}};
  const bool finalizes = GENERATE(false, true);
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const tbcclComm_t child = split(comm, 3, 0, found);
    if (rank == 1 && !finalizes) tbcclCommDestroy(child);
    if (rank == 1 && finalizes) {
      // The others fail, and so does this, if it hears of it before they have left.
      const tbcclResult_t result = tbcclCommFinalize(child);
      found.expect(result == tbcclSuccess || result == tbcclRemoteError, last(child));
      tbcclCommDestroy(child);
    }
    if (rank != 1) {
      int32_t value = 0;
      const tbcclResult_t result =
          tbcclAllReduce(&value, &value, 1, tbcclInt32, tbcclSum, child, nullptr);
      found.expect(result == tbcclRemoteError, std::to_string(result) + ": " + last(child));
      found.expect(has(last(child), "rank 1") && has(last(child), "world/color 3"), last(child));
      tbcclCommDestroy(child);
    }
    check_sums(comm, rank, 3, found);
  });
}

TEST_CASE("finalize of a child waits for its other ranks, and for no others") {
  Job job(3);
  std::atomic<int> finalized{0};
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const tbcclComm_t child = split(comm, rank == 0 ? 0 : 1, 0, found);
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      found.expect(finalized.load() == 0, "rank 1 did not wait");
      finalized.fetch_add(1);
      // Destroying finalizes.
      tbcclCommDestroy(child);
    } else {
      expect_ok(tbcclCommFinalize(child), child, found, "finalize");
      if (rank == 1) finalized.fetch_add(1);
      int32_t value = 0;
      found.expect(tbcclAllReduce(&value, &value, 1, tbcclInt32, tbcclSum, child, nullptr) ==
                       tbcclInvalidUsage,
                   "a finalized communicator is used");
      tbcclCommDestroy(child);
    }
    check_sums(comm, rank, 3, found);
    expect_ok(tbcclCommFinalize(comm), comm, found, "finalize");
  });
}

TEST_CASE("time-outs and mismatches name the child, and leave the parent alone") {
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
    config.timeoutMs = 400;
    config.commName = "short";
    tbcclComm_t child = nullptr;
    expect_ok(tbcclCommSplit(comm, 0, -rank, &child, &config), comm, found, "split");
    int32_t value = 0;
    if (rank == 0) {
      const tbcclResult_t result =
          tbcclAllReduce(&value, &value, 1, tbcclInt32, tbcclSum, child, nullptr);
      found.expect(result == tbcclTimeout, std::to_string(result) + ": " + last(child));
      found.expect(has(last(child), "of communicator short"), last(child));
      found.expect(has(last(child), "rank 2 waits for"), last(child));
    }
    check_sums(comm, rank, 3, found);
    tbcclCommDestroy(child);
    child = split(comm, 0, 0, found);
    if (rank == 1) {
      tbcclComm_t none = nullptr;
      const tbcclResult_t result = tbcclCommSplit(child, 0, 0, &none, nullptr);
      found.expect(result == tbcclInvalidUsage, std::to_string(result) + ": " + last(child));
      found.expect(has(last(child), "split()"), last(child));
      found.expect(none == nullptr, "a split that failed gave a communicator");
    } else {
      const tbcclResult_t result =
          tbcclAllReduce(&value, &value, 1, tbcclInt32, tbcclSum, child, nullptr);
      found.expect(result == tbcclInvalidUsage, std::to_string(result) + ": " + last(child));
    }
    tbcclCommDestroy(child);
    check_sums(comm, rank, 3, found);
  });
}

TEST_CASE("arguments of a split that are refused on one rank leave the parent usable on all") {
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
    if (rank == 1) config.algorithms = "allreduce:quantum";
    tbcclComm_t child = comm;
    tbcclResult_t result = tbcclCommSplit(comm, 0, 0, &child, &config);
    found.expect(result == tbcclInvalidArgument, std::to_string(result) + ": " + last(comm));
    found.expect(child == nullptr, "there is a child");
    found.expect(has(last(comm), rank == 1 ? "quantum" : "rank 1"), last(comm));
    result = tbcclCommSplit(comm, rank == 2 ? -5 : 0, 0, &child, nullptr);
    found.expect(result == tbcclInvalidArgument, std::to_string(result) + ": " + last(comm));
    found.expect(tbcclCommSplit(comm, 0, 0, nullptr, nullptr) == tbcclInvalidArgument, "no place");
    check_sums(comm, rank, 3, found);
    tbcclGroupStart();
    found.expect(tbcclCommDup(comm, &child) == tbcclInvalidUsage, "inside a group");
    tbcclGroupEnd();
  });
}

TEST_CASE("a child takes its first rank's algorithms") {
  Job job(4);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
    // First ranks: 0 of the even ones, 3 of the odd ones.
    if (rank == 0) config.algorithms = "allreduce:ring";
    if (rank == 3) config.algorithms = "allreduce:doubling";
    if (rank == 3) config.deterministic = 0;
    tbcclComm_t child = nullptr;
    expect_ok(tbcclCommSplit(comm, rank % 2, rank % 2 * -rank, &child, &config), comm, found,
              "split");
    // Found out by a mismatch's text: the algorithm is in it.
    int32_t value[2] = {};
    const tbcclResult_t result =
        tbcclAllReduce(value, value, rank < 2 ? 1 : 2, tbcclInt32, tbcclSum, child, nullptr);
    found.expect(result == tbcclInvalidUsage, std::to_string(result) + ": " + last(child));
    found.expect(has(last(child), rank % 2 == 0 ? "ring" : "doubling"), last(child));
    tbcclCommDestroy(child);
    check_sums(comm, rank, 6, found);
  });
}

TEST_CASE("a child's results are those of a communicator of the same ranks") {
  constexpr size_t kCount = 70000;
  std::vector<std::vector<float>> expected;
  const auto fill = [](int rank) {
    std::vector<float> data(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      data[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<size_t>(rank) * 13) % 1000);
    }
    return data;
  };
  {
    Job job(3);
    expected.resize(3);
    job.each([&](int rank, tbcclComm_t comm, Findings& found) {
      auto& out = expected[static_cast<size_t>(rank)];
      out = fill(rank);
      expect_ok(
          tbcclAllReduce(out.data(), out.data(), kCount, tbcclFloat32, tbcclSum, comm, nullptr),
          comm, found, "all-reduce");
    });
  }
  Job job(5);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    // More than there are sets of lines on a board: some children go over links.
    std::vector<tbcclComm_t> children;
    for (int i = 0; i < 20; ++i) {
      children.push_back(split(comm, rank % 2 == 0 ? 0 : TBCCL_NOCOLOR, 0, found));
    }
    for (tbcclComm_t child : children) {
      if (child == nullptr) continue;
      std::vector<float> out = fill(rank / 2);
      expect_ok(
          tbcclAllReduce(out.data(), out.data(), kCount, tbcclFloat32, tbcclSum, child, nullptr),
          child, found, "all-reduce");
      found.expect(out == expected[static_cast<size_t>(rank / 2)], "other bits");
      tbcclCommDestroy(child);
    }
  });
}
