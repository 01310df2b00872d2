// Operations through the public API, ranks as threads of this process.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>

#include "unit/api/job.h"

namespace {

std::string last(tbcclComm_t comm) { return tbcclGetLastError(comm); }

}  // namespace

TEST_CASE("all-reduce, broadcast and barrier for 1 to 5 ranks") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  Job job(size);
  for (size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}, size_t{100'003}}) {
    job.each([&](int rank, tbcclComm_t comm, Findings& found) {
      std::vector<int32_t> in(count), out(count, -1);
      for (size_t i = 0; i < count; ++i) in[i] = static_cast<int32_t>(i) * (rank + 1);
      const std::vector<int32_t> before = in;
      found.expect(tbcclAllReduce(in.data(), out.data(), count, tbcclInt32, tbcclSum, comm,
                                  nullptr) == tbcclSuccess,
                   last(comm));
      found.expect(in == before, "the send buffer was written");
      for (size_t i = 0; i < count; ++i) {
        const auto want = static_cast<int32_t>(i) * size * (size + 1) / 2;
        if (out[i] != want) {
          found.expect(false, "all-reduce: wrong at " + std::to_string(i));
          break;
        }
      }
      for (int root = 0; root < size; ++root) {
        std::vector<int32_t> data(count, rank == root ? 0 : -7);
        if (rank == root) std::iota(data.begin(), data.end(), root);
        found.expect(tbcclBroadcast(data.data(), data.data(), count, tbcclInt32, root, comm,
                                    nullptr) == tbcclSuccess,
                     last(comm));
        std::vector<int32_t> want(count);
        std::iota(want.begin(), want.end(), root);
        found.expect(data == want, "broadcast: wrong from root " + std::to_string(root));
      }
      found.expect(tbcclBarrier(comm, nullptr) == tbcclSuccess, last(comm));
    });
  }
}

TEST_CASE("one thread drives all ranks with groups") {
  Job job(3);
  double in[3] = {1, 2, 4}, out[3] = {};
  REQUIRE(tbcclGroupStart() == tbcclSuccess);
  for (int r = 0; r < 3; ++r) {
    REQUIRE(tbcclAllReduce(&in[r], &out[r], 1, tbcclFloat64, tbcclSum, job[r], nullptr) ==
            tbcclSuccess);
  }
  REQUIRE(tbcclGroupEnd() == tbcclSuccess);
  for (double x : out) REQUIRE(x == 7.0);

  tbcclRequest_t requests[3] = {};
  REQUIRE(tbcclGroupStart() == tbcclSuccess);
  REQUIRE(tbcclGroupStart() == tbcclSuccess);  // nested
  for (int r = 0; r < 3; ++r) {
    REQUIRE(tbcclBroadcast(&in[r], &out[r], 1, tbcclFloat64, 2, job[r], &requests[r]) ==
            tbcclSuccess);
    int done = 0;
    REQUIRE(tbcclTest(requests[r], &done) == tbcclInvalidUsage);  // not before the end
  }
  REQUIRE(tbcclGroupEnd() == tbcclSuccess);
  REQUIRE(tbcclGroupEnd() == tbcclSuccess);
  REQUIRE(tbcclWaitAll(3, requests, -1) == tbcclSuccess);
  for (double x : out) REQUIRE(x == 4.0);
  for (tbcclRequest_t& request : requests) {
    REQUIRE(tbcclRequestFree(&request) == tbcclSuccess);
    REQUIRE(request == nullptr);
  }
}

TEST_CASE("a bad call inside a group is not part of it") {
  Job job(2);
  int32_t in[2] = {3, 4}, out[2] = {};
  REQUIRE(tbcclGroupStart() == tbcclSuccess);
  REQUIRE(tbcclAllReduce(nullptr, out, 1, tbcclInt32, tbcclSum, job[0], nullptr) ==
          tbcclInvalidArgument);
  for (int r = 0; r < 2; ++r) {
    REQUIRE(tbcclAllReduce(&in[r], &out[r], 1, tbcclInt32, tbcclMax, job[r], nullptr) ==
            tbcclSuccess);
  }
  REQUIRE(tbcclCommDestroy(job[0]) == tbcclInvalidUsage);
  tbcclComm_t other = nullptr;
  REQUIRE(tbcclCommInitEnv(&other, nullptr) == tbcclInvalidUsage);
  REQUIRE(tbcclGroupEnd() == tbcclSuccess);
  REQUIRE(out[0] == 4);
  REQUIRE(out[1] == 4);
}

TEST_CASE("send and receive with tags, any source, and to oneself") {
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    std::vector<int> data(50'000, rank);
    if (rank == 0) {
      std::vector<int> a(50'000), b(50'000);
      tbcclRequest_t requests[2];
      found.expect(tbcclRecv(a.data(), a.size(), tbcclInt32, TBCCL_ANY_SOURCE, 7, comm,
                             &requests[0]) == tbcclSuccess,
                   last(comm));
      found.expect(tbcclRecv(b.data(), b.size(), tbcclInt32, TBCCL_ANY_SOURCE, 7, comm,
                             &requests[1]) == tbcclSuccess,
                   last(comm));
      found.expect(tbcclWaitAll(2, requests, 60'000) == tbcclSuccess, last(comm));
      int from[2] = {-1, -1};
      for (int i = 0; i < 2; ++i) {
        found.expect(tbcclRequestSource(requests[i], &from[i]) == tbcclSuccess, last(comm));
        tbcclRequestFree(&requests[i]);
      }
      found.expect(from[0] + from[1] == 3 && from[0] != from[1], "sources are wrong");
      found.expect(a == std::vector<int>(50'000, from[0]), "data of the first is wrong");
      found.expect(b == std::vector<int>(50'000, from[1]), "data of the second is wrong");
    } else {
      found.expect(
          tbcclSend(data.data(), data.size(), tbcclInt32, 0, 7, comm, nullptr) == tbcclSuccess,
          last(comm));
    }
    // Everybody to everybody, itself included, in one group.
    std::vector<int> out(3, rank * 10), in(3, -1);
    tbcclGroupStart();
    for (int peer = 0; peer < 3; ++peer) {
      out[static_cast<size_t>(peer)] += peer;
      tbcclSend(&out[static_cast<size_t>(peer)], 1, tbcclInt32, peer, 1, comm, nullptr);
      tbcclRecv(&in[static_cast<size_t>(peer)], 1, tbcclInt32, peer, 1, comm, nullptr);
    }
    found.expect(tbcclGroupEnd() == tbcclSuccess, last(comm));
    for (int peer = 0; peer < 3; ++peer) {
      found.expect(in[static_cast<size_t>(peer)] == peer * 10 + rank, "exchange is wrong");
    }
  });
}

TEST_CASE("operators made by the user") {
  Job job(4);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const float scalar = static_cast<float>(1 << rank);
    tbcclRedOp_t scaled, joined;
    found.expect(tbcclRedOpCreatePreMulSum(&scaled, &scalar, tbcclFloat32, tbcclScalarHostImmediate,
                                           comm) == tbcclSuccess,
                 last(comm));
    std::vector<float> in(3000, 3), out(3000);
    found.expect(tbcclAllReduce(in.data(), out.data(), in.size(), tbcclFloat32, scaled, comm,
                                nullptr) == tbcclSuccess,
                 last(comm));
    found.expect(out == std::vector<float>(3000, 45), "pre-multiplied sum is wrong");
    found.expect(in == std::vector<float>(3000, 3), "the send buffer was written");
    found.expect(tbcclAllReduce(in.data(), in.data(), in.size(), tbcclFloat32, scaled, comm,
                                nullptr) == tbcclSuccess,
                 last(comm));
    found.expect(in == out, "in place is wrong");
    found.expect(tbcclRedOpDestroy(scaled, comm) == tbcclSuccess, last(comm));
    found.expect(tbcclAllReduce(in.data(), out.data(), 1, tbcclFloat32, scaled, comm, nullptr) ==
                     tbcclInvalidArgument,
                 "a destroyed operator was taken");

    // Two-digit numbers joined in rank order: associative, not commutative.
    static const auto join = [](const void* a, void* b, size_t count, tbcclDataType_t, void* base) {
      const auto* low = static_cast<const uint64_t*>(a);
      auto* high = static_cast<uint64_t*>(b);
      for (size_t i = 0; i < count; ++i) {
        uint64_t shift = 1;
        while (shift <= high[i]) shift *= *static_cast<uint64_t*>(base);
        high[i] += low[i] * shift;
      }
    };
    static uint64_t base = 10;
    found.expect(tbcclRedOpCreate(&joined, +join, &base, 0, comm) == tbcclSuccess, last(comm));
    for (size_t count : {size_t{1}, size_t{5000}}) {
      std::vector<uint64_t> x(count, static_cast<uint64_t>(rank + 1)), y(count);
      found.expect(tbcclAllReduce(x.data(), y.data(), count, tbcclUint64, joined, comm, nullptr) ==
                       tbcclSuccess,
                   last(comm));
      found.expect(y == std::vector<uint64_t>(count, 1234), "not in rank order");
    }
  });
}

TEST_CASE("requests: test, wait with a time of its own, any, all, callbacks") {
  Job job(2);
  std::atomic<uint32_t> flag{0};
  static_assert(sizeof(flag) == 4);
  std::atomic<int> called{0};
  float in[2] = {1, 2}, out[2] = {};
  tbcclRequest_t requests[2] = {};
  for (int r = 0; r < 2; ++r) {
    tbcclCall_t call = TBCCL_CALL_INITIALIZER;
    call.comm = job[r];
    call.sendbuff = &in[r];
    call.recvbuff = &out[r];
    call.count = 1;
    call.datatype = tbcclFloat32;
    call.startWhen = r == 0 ? tbcclStartWhenFlag : tbcclStartNow;
    call.flag = reinterpret_cast<const volatile uint32_t*>(&flag);
    call.flagValue = 5;
    call.callback = [](void* context, tbcclResult_t result) {
      if (result == tbcclSuccess) static_cast<std::atomic<int>*>(context)->fetch_add(1);
    };
    call.callbackContext = &called;
    REQUIRE(tbcclSubmit(&call, &requests[r]) == tbcclSuccess);
  }
  int done = 1, index = -1;
  REQUIRE(tbcclTest(requests[1], &done) == tbcclSuccess);
  REQUIRE(done == 0);
  REQUIRE(tbcclWait(requests[1], 20) == tbcclInProgress);
  REQUIRE(tbcclWaitAll(2, requests, 5) == tbcclInProgress);
  REQUIRE(tbcclWaitAny(2, requests, &index, 5) == tbcclInProgress);
  int source = 0;
  REQUIRE(tbcclRequestSource(requests[0], &source) == tbcclInvalidUsage);
  flag.store(5);
  REQUIRE(tbcclWaitAny(2, requests, &index, 60'000) == tbcclSuccess);
  REQUIRE((index == 0 || index == 1));
  REQUIRE(tbcclWaitAll(2, requests, 60'000) == tbcclSuccess);
  REQUIRE(out[0] == 3.0f);
  REQUIRE(out[1] == 3.0f);
  for (int i = 0; i < 60'000 && called.load() < 2; ++i) usleep(1000);
  REQUIRE(called.load() == 2);
  for (tbcclRequest_t& request : requests) REQUIRE(tbcclRequestFree(&request) == tbcclSuccess);
  tbcclRequest_t none[2] = {};
  REQUIRE(tbcclWaitAny(2, none, &index, 0) == tbcclInvalidArgument);
  REQUIRE(tbcclWaitAll(2, none, 0) == tbcclSuccess);
}

TEST_CASE("a call that never starts: freed, it goes on alone; abort releases everybody") {
  Job job(2);
  float in[2] = {1, 2}, out[2] = {-1, -1};
  tbcclRequest_t request = nullptr;
  REQUIRE(tbcclAllReduce(&in[0], &out[0], 1, tbcclFloat32, tbcclSum, job[0], &request) ==
          tbcclSuccess);
  REQUIRE(tbcclRequestFree(&request) == tbcclSuccess);  // detached
  REQUIRE(tbcclAllReduce(&in[1], &out[1], 1, tbcclFloat32, tbcclSum, job[1], nullptr) ==
          tbcclSuccess);
  REQUIRE(out[1] == 3.0f);

  tbcclResult_t released = tbcclSuccess;
  std::thread blocked([&] { released = tbcclBarrier(job[1], nullptr); });
  // Makes it likely that rank 1 waits already; a barrier that comes later ends the same way.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const tbcclResult_t aborted = tbcclCommAbort(job[0]);
  blocked.join();
  REQUIRE(aborted == tbcclSuccess);
  REQUIRE(released == tbcclAborted);
  REQUIRE(tbcclBarrier(job[0], nullptr) == tbcclAborted);
  tbcclResult_t state = tbcclSuccess;
  REQUIRE(tbcclCommGetAsyncError(job[1], &state) == tbcclSuccess);
  REQUIRE(state == tbcclAborted);
  const std::string text = last(job[1]);
  INFO(text);
  REQUIRE(text.find("rank 0") != std::string::npos);
}

TEST_CASE("ranks that disagree are told so, with both sides' arguments") {
  Job job(2);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    std::vector<float> data(rank == 0 ? 10'000 : 20'000, 1.0f);
    const tbcclResult_t result = tbcclAllReduce(data.data(), data.data(), data.size(), tbcclFloat32,
                                                tbcclSum, comm, nullptr);
    found.expect(result == tbcclInvalidUsage,
                 "result " + std::to_string(result) + " " + last(comm));
  });
  const std::string a = last(job[0]), b = last(job[1]);
  INFO(a << "\n" << b);
  REQUIRE((a + b).find("10000") != std::string::npos);
  REQUIRE((a + b).find("20000") != std::string::npos);
}

TEST_CASE("finalize ends the use of a communicator") {
  Job job(2);
  job.each([&](int, tbcclComm_t comm, Findings& found) {
    found.expect(tbcclCommFinalize(comm) == tbcclSuccess, last(comm));
    found.expect(tbcclCommFinalize(comm) == tbcclSuccess, last(comm));
    found.expect(tbcclBarrier(comm, nullptr) == tbcclInvalidUsage, "a call after finalize went on");
  });
}

TEST_CASE("a group of one, without a network") {
  tbcclComm_t comm = nullptr;
  REQUIRE(tbcclCommInitEnv(&comm, nullptr) == tbcclSuccess);
  int size = 0, rank = -1;
  REQUIRE(tbcclCommCount(comm, &size) == tbcclSuccess);
  REQUIRE(tbcclCommUserRank(comm, &rank) == tbcclSuccess);
  REQUIRE(size == 1);
  REQUIRE(rank == 0);
  const int8_t in[3] = {1, -2, 3};
  int8_t out[3] = {};
  for (tbcclRedOp_t op : {tbcclSum, tbcclProd, tbcclMin, tbcclMax, tbcclAvg, tbcclBitXor}) {
    std::memset(out, 9, sizeof out);
    REQUIRE(tbcclAllReduce(in, out, 3, tbcclInt8, op, comm, nullptr) == tbcclSuccess);
    REQUIRE(std::memcmp(in, out, 3) == 0);
  }
  REQUIRE(tbcclBarrier(comm, nullptr) == tbcclSuccess);
  REQUIRE(tbcclCommDestroy(comm) == tbcclSuccess);
}

TEST_CASE("a rank that left is named by the ranks that still wait for it") {
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    found.expect(tbcclBarrier(comm, nullptr) == tbcclSuccess, last(comm));
    if (rank == 2) {
      job.leave(2);
      return;
    }
    const tbcclResult_t result = tbcclBarrier(comm, nullptr);
    found.expect(result == tbcclRemoteError, "result " + std::to_string(result));
    found.expect(last(comm).find("rank 2") != std::string::npos, last(comm));
  });
}

TEST_CASE("destroying ends with an operation outstanding that nobody will match") {
  setenv("TBCCL_TIMEOUT", "0", 1);
  setenv("TBCCL_CONNECT_TIMEOUT", "2", 1);
  Job job(2);
  unsetenv("TBCCL_TIMEOUT");
  unsetenv("TBCCL_CONNECT_TIMEOUT");
  int32_t data = 0;
  tbcclRequest_t request = nullptr;
  REQUIRE(tbcclRecv(&data, 1, tbcclInt32, 0, 0, job[1], &request) == tbcclSuccess);
  REQUIRE(tbcclRequestFree(&request) == tbcclSuccess);
  const auto start = std::chrono::steady_clock::now();
  job.leave(1);
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  REQUIRE(tbcclBarrier(job[0], nullptr) == tbcclInvalidUsage);
  const std::string text = last(job[0]);
  INFO(text);
  REQUIRE(text.find("rank 1 destroyed the communicator") != std::string::npos);
}

TEST_CASE("a communicator destroyed under an open group of another thread") {
  Job job(2);
  int32_t in = 1, out = 0;
  std::atomic<int> step{0};
  std::atomic<int> result{-1};
  const auto comes_to = [&](int wanted) {
    for (int i = 0; i < 60'000 && step.load() != wanted; ++i) usleep(1000);
  };
  std::thread holder([&] {
    tbcclGroupStart();
    tbcclAllReduce(&in, &out, 1, tbcclInt32, tbcclSum, job[1], nullptr);
    step.store(1);
    comes_to(2);
    result.store(tbcclGroupEnd());
  });
  comes_to(1);
  job.leave(1);
  step.store(2);
  holder.join();
  REQUIRE(result.load() == tbcclInvalidUsage);
  REQUIRE(out == 0);
}

TEST_CASE("a receive from any source fails when all who could send have left, not before") {
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    int32_t data = rank;
    found.expect(tbcclBarrier(comm, nullptr) == tbcclSuccess, last(comm));
    if (rank == 1) {
      job.leave(1);
    } else if (rank == 2) {
      // Long enough for rank 0 to have asked the others about its call, several times; where it has
      // not yet, the call has all the less reason to fail.
      std::this_thread::sleep_for(std::chrono::milliseconds(3500));
      found.expect(tbcclSend(&data, 1, tbcclInt32, 0, 0, comm, nullptr) == tbcclSuccess,
                   last(comm));
      job.leave(2);
    } else {
      found.expect(
          tbcclRecv(&data, 1, tbcclInt32, TBCCL_ANY_SOURCE, 0, comm, nullptr) == tbcclSuccess,
          last(comm));
      found.expect(data == 2, "the data is wrong");
      tbcclCall_t call = TBCCL_CALL_INITIALIZER;
      call.comm = comm;
      call.operation = tbcclOpRecv;
      call.recvbuff = &data;
      call.count = 1;
      call.datatype = tbcclInt32;
      call.root = TBCCL_ANY_SOURCE;
      call.timeoutMs = 60'000;
      const tbcclResult_t result = tbcclSubmit(&call, nullptr);
      found.expect(result == tbcclRemoteError, "result " + std::to_string(result));
      found.expect(last(comm).find("ranks 1, 2") != std::string::npos, last(comm));
    }
  });
}
