// How calls and communicators end: what is said, and that it does not take for ever.
#include <chrono>
#include <memory>

#include "unit/api/job.h"
#include "unit/api/variables.h"

namespace {

using Clock = std::chrono::steady_clock;

std::string last(tbcclComm_t comm) { return tbcclGetLastError(comm); }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

tbcclResult_t all_reduce_within(tbcclComm_t comm, std::vector<float>& data, int64_t ms) {
  tbcclCall_t call = TBCCL_CALL_INITIALIZER;
  call.comm = comm;
  call.operation = tbcclOpAllReduce;
  call.sendbuff = call.recvbuff = data.data();
  call.count = data.size();
  call.datatype = tbcclFloat32;
  call.op = tbcclSum;
  call.timeoutMs = ms;
  return tbcclSubmit(&call, nullptr);
}

}  // namespace

TEST_CASE("a deadline's error says what each other rank is doing") {
  Job job(4);
  // Known from the reports of a stall, or asked for when the time is over.
  const int64_t ms = GENERATE(int64_t{200}, int64_t{2500});
  std::vector<float> data(1000, 1), other(1000, 1);
  std::thread busy([&] {
    tbcclAllReduce(data.data(), data.data(), 1000, tbcclFloat32, tbcclSum, job[1], nullptr);
  });
  std::vector<float> message(10);
  std::thread receiver([&] { tbcclRecv(message.data(), 10, tbcclFloat32, 3, 5, job[2], nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto start = Clock::now();
  const tbcclResult_t result = all_reduce_within(job[0], other, ms);
  const auto took = Clock::now() - start;
  const std::string text = last(job[0]);
  busy.join();
  receiver.join();
  INFO(text);
  REQUIRE(result == tbcclTimeout);
  CHECK(has(text, "rank 1 is in all-reduce"));
  CHECK(has(text, "operation 1"));
  CHECK(has(text, "rank 2 is in receive"));
  CHECK(has(text, "and waits for rank 3"));
  CHECK(has(text, "rank 3 is in no call"));
  // The second that the answers may take, and a busy machine.
  CHECK(took < std::chrono::milliseconds(ms + 10'000));
  // Memory is the caller's again.
  std::fill(other.begin(), other.end(), 7.0f);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(other == std::vector<float>(1000, 7.0f));
}

TEST_CASE("a call that the others join while they are asked what they do completes") {
  Job job(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> mine(8, 1), theirs(8, 1);
    tbcclResult_t there = tbcclSuccess;
    std::thread late([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      there =
          tbcclAllReduce(theirs.data(), theirs.data(), 8, tbcclFloat32, tbcclSum, job[1], nullptr);
    });
    const tbcclResult_t here = all_reduce_within(job[0], mine, 3);
    late.join();
    INFO(last(job[0]));
    if (here != tbcclSuccess) {
      CHECK(here == tbcclTimeout);
      break;
    }
    CHECK(there == tbcclSuccess);
    CHECK(mine[7] == 2);
    CHECK(theirs[7] == 2);
  }
}

TEST_CASE("abort ends a finalize that waits for the others") {
  Job job(2);
  const bool by_peer = GENERATE(false, true);
  tbcclResult_t result = tbcclSuccess;
  std::thread finalizing([&] { result = tbcclCommFinalize(job[0]); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto start = Clock::now();
  REQUIRE(tbcclCommAbort(job[by_peer ? 1 : 0]) == tbcclSuccess);
  finalizing.join();
  CHECK(result == tbcclAborted);
  CHECK(Clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("destroying ends with a thread inside finalize that nobody answers") {
  std::unique_ptr<Job> job;
  {
    const Variables variables{{"TBCCL_TIMEOUT", "0"}, {"TBCCL_CONNECT_TIMEOUT", "2"}};
    job = std::make_unique<Job>(2);
  }
  tbcclResult_t result = tbcclSuccess;
  std::string text;
  std::thread finalizing([&] {
    result = tbcclCommFinalize((*job)[0]);
    text = last(nullptr);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto start = Clock::now();
  job->leave(0);
  finalizing.join();
  INFO(text);
  CHECK(Clock::now() - start < std::chrono::seconds(30));
  CHECK(result == tbcclInvalidUsage);
  CHECK(has(text, "destroyed while rank 0's thread was inside a call"));
}

TEST_CASE("destroying ends after a finalize that ran out of time with work outstanding") {
  std::unique_ptr<Job> job;
  {
    const Variables variables{{"TBCCL_TIMEOUT", "0.5"}, {"TBCCL_CONNECT_TIMEOUT", "2"}};
    job = std::make_unique<Job>(2);
  }
  int32_t data = 0;
  tbcclCall_t call = TBCCL_CALL_INITIALIZER;
  call.comm = (*job)[1];
  call.operation = tbcclOpRecv;
  call.recvbuff = &data;
  call.count = 1;
  call.datatype = tbcclInt32;
  call.root = 0;
  call.timeoutMs = 0;
  tbcclRequest_t request = nullptr;
  REQUIRE(tbcclSubmit(&call, &request) == tbcclSuccess);
  REQUIRE(tbcclRequestFree(&request) == tbcclSuccess);
  REQUIRE(tbcclCommFinalize((*job)[1]) == tbcclTimeout);
  const auto start = Clock::now();
  job->leave(1);
  CHECK(Clock::now() - start < std::chrono::seconds(30));
}

// The question for the others' calls comes in while this rank's own deadline passes.
TEST_CASE("ranks whose deadlines pass together all return") {
  constexpr int kRanks = 8;
  for (int round = 0; round < 3; ++round) {
    Job job(kRanks);
    job.each([&](int rank, tbcclComm_t comm, Findings& found) {
      found.expect(tbcclBarrier(comm, nullptr) == tbcclSuccess, last(comm));
      int32_t word = 0;
      tbcclCall_t call = TBCCL_CALL_INITIALIZER;
      call.comm = comm;
      call.operation = tbcclOpRecv;
      call.recvbuff = &word;
      call.count = 1;
      call.datatype = tbcclInt32;
      call.root = (rank + 1) % kRanks;
      call.timeoutMs = 1000;
      const tbcclResult_t result = tbcclSubmit(&call, nullptr);
      // Its own deadline, or that of a rank that was a moment before.
      found.expect(result == tbcclTimeout || result == tbcclRemoteError,
                   std::to_string(result) + ": " + last(comm));
    });
  }
}

TEST_CASE("finalize waits for a short call that another thread is blocked in") {
  const bool destroy = GENERATE(false, true);
  Job job(4);
  std::atomic<bool> ending{false};
  std::thread ender;
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    if (rank == 1) {
      // Rank 0's call is active, and its finalize has had time to overlook it.
      for (int i = 0; i < 3000 && !ending.load(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    }
    if (rank == 0) {
      ender = std::thread([&, comm] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ending.store(true);
        if (destroy) {
          job.leave(0);
        } else {
          tbcclCommFinalize(comm);
        }
      });
    }
    int64_t word = rank + 1;
    const tbcclResult_t result =
        tbcclAllReduce(&word, &word, 1, tbcclInt64, tbcclSum, comm, nullptr);
    found.expect(result == tbcclSuccess, last(rank == 0 && destroy ? nullptr : comm));
    found.expect(word == 10, "the sum is " + std::to_string(word));
    if (rank != 0 && !destroy) tbcclCommFinalize(comm);
  });
  ender.join();
}

// What waits longest is not all that is looked at.
TEST_CASE("a rank that left ends an all-reduce behind a receive that may still come") {
  const Variables variables{{"TBCCL_TIMEOUT", "60"}};
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    if (rank == 2) {
      job.leave(2);
      return;
    }
    int64_t word = 0;
    tbcclRequest_t request = nullptr;
    found.expect(
        tbcclRecv(&word, 1, tbcclInt64, TBCCL_ANY_SOURCE, 5, comm, &request) == tbcclSuccess,
        last(comm));
    std::vector<int64_t> data(100, 1);
    const tbcclResult_t result =
        tbcclAllReduce(data.data(), data.data(), 100, tbcclInt64, tbcclSum, comm, nullptr);
    found.expect(result == tbcclRemoteError, std::to_string(result) + ": " + last(comm));
    found.expect(has(last(comm), "rank 2"), last(comm));
    found.expect(tbcclRequestFree(&request) == tbcclSuccess, "cannot be freed");
  });
}
