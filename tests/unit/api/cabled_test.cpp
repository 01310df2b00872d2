// Algorithms that follow cables, through the whole of the library: ranks on a chain of cables over
// the loopback, every operation that each of them serves, some elements and many.
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "unit/api/job.h"
#include "unit/api/variables.h"

namespace {

// Every end of a cable needs an address of its own; only Linux has more than one on the loopback.
#ifdef __linux__
constexpr int kRanks = 5;
#else
constexpr int kRanks = 2;
#endif

// A file that describes cables between ranks one after the other; removed at the end.
class Cabling {
 public:
  Cabling() {
    const int descriptor = mkstemp(path_);
    REQUIRE(descriptor >= 0);
    close(descriptor);
    std::ofstream file(path_);
    file << R"({"cables":[)";
    for (int r = 0; r + 1 < kRanks; ++r)
      file << (r > 0 ? "," : "") << R"({"ends":[{"rank":)" << r << R"(,"address":")" << address(r)
           << R"("},{"rank":)" << r + 1 << R"(,"address":")" << address(r) << R"("}]})";
    file << "]}";
  }
  ~Cabling() { unlink(path_); }
  Cabling(const Cabling&) = delete;
  Cabling& operator=(const Cabling&) = delete;
  const char* path() const { return path_; }

 private:
  static std::string address(int cable) { return "127.0.0." + std::to_string(cable + 1); }

  char path_[32] = "/tmp/tbccl-cabling-XXXXXX";
};

using Data = std::vector<int>;

// What rank r contributes at element i.
int given(int r, size_t i) { return static_cast<int>(i % 1000) * 7 + r * 31 + 1; }

int sum(size_t i) {
  int total = 0;
  for (int r = 0; r < kRanks; ++r) total += given(r, i);
  return total;
}

Data contribution(int rank, size_t count) {
  Data data(count);
  for (size_t i = 0; i < count; ++i) data[i] = given(rank, i);
  return data;
}

template <class F>
bool holds(const Data& data, F expected) {
  for (size_t i = 0; i < data.size(); ++i)
    if (data[i] != expected(i)) return false;
  return true;
}

void reductions(int rank, tbcclComm_t comm, size_t n, int root, bool in_place, Findings& found) {
  const auto r = static_cast<size_t>(rank);
  Data all = contribution(rank, n * kRanks), one(n, -1), mine = contribution(rank, n);
  Data& result = in_place ? mine : one;
  found.expect(tbcclAllReduce(mine.data(), result.data(), n, tbcclInt32, tbcclSum, comm, nullptr) ==
                       tbcclSuccess &&
                   holds(result, sum),
               "all-reduce");
  mine = contribution(rank, n);
  found.expect(tbcclReduce(mine.data(), one.data(), n, tbcclInt32, tbcclSum, root, comm, nullptr) ==
                       tbcclSuccess &&
                   (rank != root || holds(one, sum)),
               "reduce");
  Data part(n, -1);
  int* const to = in_place ? all.data() + r * n : part.data();
  const bool done =
      tbcclReduceScatter(all.data(), to, n, tbcclInt32, tbcclSum, comm, nullptr) == tbcclSuccess;
  part.assign(to, to + n);
  found.expect(done && holds(part, [&](size_t i) { return sum(r * n + i); }), "reduce-scatter");
}

void moves(int rank, tbcclComm_t comm, size_t n, int root, Findings& found) {
  const Data mine = contribution(rank, n);
  Data one(n, -1), all(n * kRanks, -1);
  found.expect(
      tbcclBroadcast(mine.data(), one.data(), n, tbcclInt32, root, comm, nullptr) == tbcclSuccess &&
          holds(one, [&](size_t i) { return given(root, i); }),
      "broadcast");
  const auto gathered = [&](size_t i) { return given(static_cast<int>(i / n), i % n); };
  found.expect(
      tbcclAllGather(mine.data(), all.data(), n, tbcclInt32, comm, nullptr) == tbcclSuccess &&
          holds(all, gathered),
      "all-gather");
  all.assign(n * kRanks, -1);
  found.expect(
      tbcclGather(mine.data(), all.data(), n, tbcclInt32, root, comm, nullptr) == tbcclSuccess &&
          (rank != root || holds(all, gathered)),
      "gather");
  const Data rows = contribution(rank, n * kRanks);
  const auto first = static_cast<size_t>(rank) * n;
  found.expect(
      tbcclScatter(rows.data(), one.data(), n, tbcclInt32, root, comm, nullptr) == tbcclSuccess &&
          holds(one, [&](size_t i) { return given(root, first + i); }),
      "scatter");
  found.expect(
      tbcclAllToAll(rows.data(), all.data(), n, tbcclInt32, comm, nullptr) == tbcclSuccess &&
          holds(all, [&](size_t i) { return given(static_cast<int>(i / n), first + i % n); }),
      "all-to-all");
}

}  // namespace

TEST_CASE("algorithms that follow cables carry real data") {
  const Cabling cabling;
  const char* const algorithm =
      GENERATE("spanning", "shallow", "hierarchical", "cube", "routed", "");
  const Variables variables{{"TBCCL_CABLING", cabling.path()},
                            {"TBCCL_DEBUG", "NONE"},  // pairs without a cable are warned of
                            {"TBCCL_ALGO", algorithm}};
  INFO(algorithm);
  Job job(kRanks);
  job.each([](int rank, tbcclComm_t comm, Findings& found) {
    for (size_t n : {size_t{1}, size_t{3001}, size_t{100'000}})
      for (int root : {0, kRanks - 1}) {
        for (bool in_place : {false, true}) reductions(rank, comm, n, root, in_place, found);
        moves(rank, comm, n, root, found);
        found.expect(tbcclBarrier(comm, nullptr) == tbcclSuccess, "barrier");
      }
  });
}
