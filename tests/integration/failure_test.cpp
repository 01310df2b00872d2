// Failed and aborted calls: they return, they say why, and afterwards memory is the caller's.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "team.h"
#include "unit/catch.h"

using namespace integration;

namespace {

constexpr auto kLongEnough = std::chrono::seconds(60);  // no test waits this long unless it fails
// How long forbidden memory is watched: a late access is the likelier caught the longer it is, and
// a library that makes none passes in any time.
constexpr auto kWatch = std::chrono::milliseconds(300);

// Pages of their own, which can be taken away from everybody.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  }
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  unsigned char* data() const { return static_cast<unsigned char*>(memory_); }
  size_t size() const { return bytes_; }
  void forbid() const { mprotect(memory_, bytes_, PROT_NONE); }
  void allow() const { mprotect(memory_, bytes_, PROT_READ | PROT_WRITE); }

 private:
  void* memory_;
  size_t bytes_;
};

// Runs an all-reduce of `bytes` on rank 0..n-2 while the last rank never calls, aborts from
// another thread after `delay`, and takes the buffers away the moment each call has returned.
void abort_while_blocked(size_t bytes, std::chrono::milliseconds delay, int aborting) {
  constexpr int kRanks = 3;
  Team team(kRanks);
  REQUIRE(team.result() == tbcclSuccess);
  std::vector<std::unique_ptr<Pages>> sends, recvs;
  for (int rank = 0; rank < kRanks; ++rank) {
    sends.push_back(std::make_unique<Pages>(bytes));
    recvs.push_back(std::make_unique<Pages>(bytes));
    std::memset(sends.back()->data(), rank + 1, bytes);
  }
  tbcclResult_t results[kRanks] = {};
  std::thread aborter([&] {
    // Whether the calls are waiting by then, in the middle, or still to come: they are aborted.
    std::this_thread::sleep_for(delay);
    tbcclCommAbort(team[aborting]);
  });
  on_all_ranks(kRanks - 1, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    results[rank] = tbcclAllReduce(sends[at]->data(), recvs[at]->data(), bytes, tbcclUint8,
                                   tbcclSum, team[rank], nullptr);
    // A read or write of the library's from here on ends this program.
    sends[at]->forbid();
    recvs[at]->forbid();
  });
  aborter.join();
  std::this_thread::sleep_for(kWatch);
  for (int rank = 0; rank < kRanks - 1; ++rank) {
    REQUIRE(results[rank] == tbcclAborted);
    REQUIRE(std::string(tbcclGetLastError(team[rank])) != "");
    sends[static_cast<size_t>(rank)]->allow();
    const unsigned char* sent = sends[static_cast<size_t>(rank)]->data();
    for (size_t i = 0; i < bytes; ++i) {
      if (sent[i] != rank + 1)
        FAIL("byte " << i << " of rank " << rank << "'s send buffer was written");
    }
  }
  team.destroy();
}

}  // namespace

TEST_CASE("Abort from another thread releases blocked calls, and their memory is left alone") {
  SECTION("small, by a rank that is blocked itself") {
    abort_while_blocked(64, std::chrono::milliseconds(100), 0);
  }
  SECTION("small, by the rank that never called") {
    abort_while_blocked(64, std::chrono::milliseconds(100), 2);
  }
  SECTION("large") { abort_while_blocked(32u << 20, std::chrono::milliseconds(100), 1); }
  SECTION("large, at once") { abort_while_blocked(32u << 20, std::chrono::milliseconds(1), 0); }
}

TEST_CASE("Abort in the middle of traffic: every rank's memory is left alone") {
  constexpr int kRanks = 2;
  constexpr size_t kBytes = 16u << 20;
  for (int round = 0; round < 4; ++round) {
    Team team(kRanks);
    REQUIRE(team.result() == tbcclSuccess);
    tbcclResult_t results[kRanks] = {};
    std::thread aborter([&] {
      // Other moments in other rounds; each is as good.
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + 7 * round));
      tbcclCommAbort(team[round % kRanks]);
    });
    on_all_ranks(kRanks, [&](int rank) {
      const auto deadline = std::chrono::steady_clock::now() + kLongEnough;
      Pages send(kBytes), recv(kBytes);
      std::memset(send.data(), 1, kBytes);
      tbcclResult_t& result = results[rank];
      while (result == tbcclSuccess && std::chrono::steady_clock::now() < deadline) {
        result = tbcclAllReduce(send.data(), recv.data(), kBytes / 4, tbcclInt32, tbcclSum,
                                team[rank], nullptr);
      }
      send.forbid();
      recv.forbid();
      std::this_thread::sleep_for(kWatch);
    });
    aborter.join();
    for (tbcclResult_t result : results) REQUIRE(result == tbcclAborted);
    for (int rank = 0; rank < kRanks; ++rank) {
      REQUIRE(tbcclBarrier(team[rank], nullptr) == tbcclAborted);  // the first cause, ever after
      tbcclResult_t state = tbcclSuccess;
      REQUIRE(tbcclCommGetAsyncError(team[rank], &state) == tbcclSuccess);
      REQUIRE(state == tbcclAborted);
    }
  }
}

TEST_CASE("A call whose deadline passes says whom it waited for, and its memory is left alone") {
  Team team(2);
  REQUIRE(team.result() == tbcclSuccess);
  Pages recv(1u << 20);
  tbcclCall_t call = TBCCL_CALL_INITIALIZER;
  call.operation = tbcclOpRecv;
  call.comm = team[0];
  call.recvbuff = recv.data();
  call.count = recv.size();
  call.datatype = tbcclUint8;
  call.root = 1;
  call.timeoutMs = 300;
  REQUIRE(tbcclSubmit(&call, nullptr) == tbcclTimeout);
  recv.forbid();
  const std::string text = tbcclGetLastError(team[0]);
  INFO(text);
  REQUIRE(contains(text, "rank 1"));
  // What comes too late goes nowhere.
  std::vector<unsigned char> late(1u << 20, 7);
  REQUIRE(tbcclSend(late.data(), late.size(), tbcclUint8, 0, 0, team[1], nullptr) != tbcclSuccess);
  std::this_thread::sleep_for(kWatch);
}

TEST_CASE("tbcclWait running out of its own time breaks nothing") {
  Team team(2);
  REQUIRE(team.result() == tbcclSuccess);
  int received = 0;
  const int sent = 5;
  tbcclRequest_t request = TBCCL_REQUEST_NULL;
  REQUIRE(tbcclRecv(&received, 1, tbcclInt32, 1, 0, team[0], &request) == tbcclSuccess);
  REQUIRE(tbcclWait(request, 50) == tbcclInProgress);
  REQUIRE(tbcclSend(&sent, 1, tbcclInt32, 0, 0, team[1], nullptr) == tbcclSuccess);
  REQUIRE(tbcclWait(request, 60'000) == tbcclSuccess);
  REQUIRE(received == 5);
  REQUIRE(tbcclRequestFree(&request) == tbcclSuccess);
}

TEST_CASE("Calls that do not match are reported by both sides with both sides' arguments") {
  constexpr int kRanks = 2;
  const size_t cases[][kRanks] = {{16, 17}, {1u << 20, 4}};
  for (const auto& counts : cases) {
    Team team(kRanks);
    REQUIRE(team.result() == tbcclSuccess);
    tbcclResult_t results[kRanks] = {};
    std::string texts[kRanks];
    const auto start = std::chrono::steady_clock::now();
    on_all_ranks(kRanks, [&](int rank) {
      std::vector<float> values(counts[rank], 1.0f);
      results[rank] = tbcclAllReduce(values.data(), values.data(), counts[rank], tbcclFloat32,
                                     tbcclSum, team[rank], nullptr);
      texts[rank] = tbcclGetLastError(team[rank]);
    });
    REQUIRE(std::chrono::steady_clock::now() - start < kLongEnough);
    for (int rank = 0; rank < kRanks; ++rank) {
      INFO("rank " << rank << ": " << texts[rank]);
      REQUIRE(results[rank] == tbcclInvalidUsage);
      REQUIRE(contains(texts[rank], std::to_string(counts[0])));
      REQUIRE(contains(texts[rank], std::to_string(counts[1])));
    }
  }
}

TEST_CASE("A bad argument has no effect and leaves the communicator usable") {
  Team team(2);
  REQUIRE(team.result() == tbcclSuccess);
  float value = 1;
  REQUIRE(tbcclAllReduce(&value, &value, 1, tbcclFloat32, tbcclBitAnd, team[0], nullptr) ==
          tbcclInvalidArgument);
  REQUIRE(tbcclBroadcast(&value, &value, 1, tbcclFloat32, 9, team[0], nullptr) ==
          tbcclInvalidArgument);
  tbcclResult_t results[2] = {};
  float values[2] = {1, 2};
  on_all_ranks(2, [&](int rank) {
    results[rank] = tbcclAllReduce(&values[rank], &values[rank], 1, tbcclFloat32, tbcclSum,
                                   team[rank], nullptr);
  });
  for (int rank = 0; rank < 2; ++rank) {
    REQUIRE(results[rank] == tbcclSuccess);
    REQUIRE(values[rank] == 3.0f);
  }
}
