// Persistent requests: what they compute, what they refuse, and that a start allocates nothing.
#include <atomic>
#include <chrono>
#include <thread>

#include "support/allocations.h"
#include "unit/api/job.h"
#include "unit/api/variables.h"

namespace {

std::string last(tbcclComm_t comm) { return tbcclGetLastError(comm); }

void expect_ok(tbcclResult_t result, tbcclComm_t comm, Findings& found, const char* what) {
  if (result == tbcclSuccess) return;  // and no text is made
  found.expect(false, std::string(what) + ": " + std::to_string(result) + ", " + last(comm));
}

}  // namespace

TEST_CASE("persistent requests compute what calls do, start after start") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const int next = (rank + 1) % 3, before = (rank + 2) % 3;
    for (const size_t count : {1, 700, 100000}) {
      std::vector<float> in(count), sum(count), news(count), out(count), got(count);
      tbcclRequest_t requests[5] = {};
      expect_ok(tbcclAllReduceInit(in.data(), sum.data(), count, tbcclFloat32, tbcclSum, comm,
                                   &requests[0]),
                comm, found, "all-reduce");
      expect_ok(
          tbcclBroadcastInit(news.data(), news.data(), count, tbcclFloat32, 1, comm, &requests[1]),
          comm, found, "broadcast");
      expect_ok(tbcclBarrierInit(comm, &requests[2]), comm, found, "barrier");
      expect_ok(tbcclSendInit(out.data(), count, tbcclFloat32, next, 3, comm, &requests[3]), comm,
                found, "send");
      expect_ok(tbcclRecvInit(got.data(), count, tbcclFloat32, before, 3, comm, &requests[4]), comm,
                found, "receive");
      int done = 0;
      expect_ok(tbcclTest(requests[0], &done), comm, found, "test");
      found.expect(done == 1, "a request that was not started is in progress");
      expect_ok(tbcclWait(requests[4], -1), comm, found, "wait");
      for (int round = 1; round <= 20; ++round) {
        std::fill(in.begin(), in.end(), static_cast<float>(rank + round));
        std::fill(news.begin(), news.end(), static_cast<float>(rank == 1 ? 7 * round : -1));
        std::fill(out.begin(), out.end(), static_cast<float>(100 * rank + round));
        // Together, one by one, or in a group.
        if (round % 3 == 0) {
          expect_ok(tbcclStartAll(5, requests), comm, found, "start all");
        } else {
          if (round % 3 == 1) tbcclGroupStart();
          for (tbcclRequest_t request : requests) {
            expect_ok(tbcclStart(request), comm, found, "start");
          }
          if (round % 3 == 1) {
            found.expect(tbcclTest(requests[0], &done) == tbcclInvalidUsage, "used in its group");
            found.expect(tbcclStart(requests[0]) == tbcclInvalidArgument, "twice in a group");
            expect_ok(tbcclGroupEnd(), comm, found, "group");
          }
        }
        expect_ok(tbcclWaitAll(5, requests, -1), comm, found, "wait");
        found.expect(sum.back() == static_cast<float>(3 + 3 * round), "wrong sum");
        found.expect(news.front() == static_cast<float>(7 * round), "wrong news");
        found.expect(got.back() == static_cast<float>(100 * before + round), "wrong message");
        int source = -1;
        expect_ok(tbcclRequestSource(requests[4], &source), comm, found, "source");
        found.expect(source == before, "wrong source");
      }
      for (tbcclRequest_t& request : requests) tbcclRequestFree(&request);
    }
  });
}

TEST_CASE("a rank starts a request, and another makes the call") {
  Job job(2);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    int64_t value = 0, sum = 0;
    tbcclCall_t call = TBCCL_CALL_INITIALIZER;
    call.comm = comm;
    call.sendbuff = &value;
    call.recvbuff = &sum;
    call.count = 1;
    call.datatype = tbcclInt64;
    tbcclRequest_t request = nullptr;
    expect_ok(tbcclCallInit(&call, &request), comm, found, "init");
    for (int round = 0; round < 100; ++round) {
      value = round;
      if (round % 2 == rank) {
        expect_ok(tbcclStart(request), comm, found, "start");
        expect_ok(tbcclWait(request, -1), comm, found, "wait");
      } else {
        expect_ok(tbcclAllReduce(&value, &sum, 1, tbcclInt64, tbcclSum, comm, nullptr), comm, found,
                  "all-reduce");
      }
      found.expect(sum == 2 * round, "wrong sum");
    }
    tbcclRequestFree(&request);
  });
}

TEST_CASE("what cannot be started is refused, without effect") {
  Job job(2);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    int32_t value = 5, got = 0;
    tbcclRequest_t requests[2] = {};
    tbcclRequest_t& mine = requests[1];
    expect_ok(tbcclBarrierInit(comm, &requests[0]), comm, found, "barrier");
    if (rank == 0) {
      expect_ok(tbcclRecvInit(&got, 1, tbcclInt32, 1, 0, comm, &mine), comm, found, "receive");
      expect_ok(tbcclStart(mine), comm, found, "start");
      found.expect(tbcclStart(mine) == tbcclInvalidArgument, "started twice");
      found.expect(last(nullptr).find("in progress") != std::string::npos, last(nullptr));
      // One of several: none is started, so that the barrier below is the first one.
      found.expect(tbcclStartAll(2, requests) == tbcclInvalidArgument, "started twice");
    }
    expect_ok(tbcclBarrier(comm, nullptr), comm, found, "barrier");
    if (rank == 1)
      expect_ok(tbcclSend(&value, 1, tbcclInt32, 0, 0, comm, nullptr), comm, found, "");
    if (rank == 0) expect_ok(tbcclWait(mine, -1), comm, found, "wait");
    found.expect(rank == 1 || got == 5, "wrong message");
    tbcclRequest_t plain = nullptr;
    expect_ok(tbcclBarrier(comm, &plain), comm, found, "barrier");
    found.expect(tbcclStart(plain) == tbcclInvalidArgument, "not persistent");
    found.expect(tbcclStart(nullptr) == tbcclInvalidArgument, "NULL");
    found.expect(tbcclStartAll(-1, nullptr) == tbcclInvalidArgument, "negative");
    expect_ok(tbcclWait(plain, -1), comm, found, "wait");
    tbcclRequestFree(&plain);
    tbcclRequest_t none = nullptr;
    found.expect(tbcclAllReduceInit(nullptr, &got, 1, tbcclInt32, tbcclSum, comm, &none) ==
                     tbcclInvalidArgument,
                 "sendbuff is NULL");
    found.expect(tbcclBarrierInit(comm, nullptr) == tbcclInvalidArgument, "request is NULL");
    found.expect(tbcclBarrierInit(nullptr, &none) == tbcclInvalidArgument, "comm is NULL");
    found.expect(none == nullptr, "a request of a refused call");
    // Freed while it is in progress it goes on.
    expect_ok(tbcclStart(requests[0]), comm, found, "start");
    tbcclRequestFree(&requests[0]);
    expect_ok(tbcclBarrier(comm, nullptr), comm, found, "barrier");
    if (rank == 0) tbcclRequestFree(&mine);
  });
}

TEST_CASE("a persistent request's failure is told, and every later start's") {
  Job job(2);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    int32_t value = 0;
    tbcclRequest_t request = nullptr;
    expect_ok(tbcclAllReduceInit(&value, &value, 1, tbcclInt32, tbcclSum, comm, &request), comm,
              found, "init");
    expect_ok(tbcclStart(request), comm, found, "start");
    expect_ok(tbcclWait(request, -1), comm, found, "wait");
    // The first is over on rank 1, too, before rank 0 aborts; this one may not be.
    const tbcclResult_t met = tbcclBarrier(comm, nullptr);
    found.expect(met == tbcclSuccess || rank == 1, "barrier: " + std::to_string(met));
    if (rank == 0) {
      expect_ok(tbcclStart(request), comm, found, "start");
      tbcclCommAbort(comm);
      // It may have been over before.
      const tbcclResult_t result = tbcclWait(request, -1);
      found.expect(result == tbcclAborted || result == tbcclSuccess, std::to_string(result));
      found.expect(tbcclStart(request) == tbcclAborted, "started when broken");
      tbcclGroupStart();
      found.expect(tbcclStart(request) == tbcclAborted, "started when broken");
      tbcclGroupEnd();
    } else {
      tbcclResult_t result = tbcclSuccess;
      for (int i = 0; i < 100 && result == tbcclSuccess; ++i) {
        result = tbcclStart(request);
        if (result == tbcclSuccess) result = tbcclWait(request, -1);
      }
      found.expect(result == tbcclAborted, std::to_string(result) + ": " + last(comm));
    }
    tbcclRequestFree(&request);
  });
}

namespace {

struct Rearming {
  tbcclRequest_t request = nullptr;
  std::atomic<int> left{0};
  std::atomic<int> failed{0};
};

void rearm(void* context, tbcclResult_t result) {
  auto* const r = static_cast<Rearming*>(context);
  if (result != tbcclSuccess) r->failed.fetch_add(1);
  if (r->left.load() > 1 && tbcclStart(r->request) != tbcclSuccess) r->failed.fetch_add(1);
  r->left.fetch_sub(1);
}

}  // namespace

TEST_CASE("a callback may start its request again") {
  Job job(2);
  job.each([&](int, tbcclComm_t comm, Findings& found) {
    int32_t value = 0;
    Rearming again;
    again.left.store(200);
    tbcclCall_t call = TBCCL_CALL_INITIALIZER;
    call.comm = comm;
    call.sendbuff = call.recvbuff = &value;
    call.count = 1;
    call.datatype = tbcclInt32;
    call.op = tbcclMax;
    call.callback = rearm;
    call.callbackContext = &again;
    expect_ok(tbcclCallInit(&call, &again.request), comm, found, "init");
    expect_ok(tbcclStart(again.request), comm, found, "start");
    for (int i = 0; i < 20000 && again.left.load() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    found.expect(again.left.load() == 0, "callbacks are missing");
    found.expect(again.failed.load() == 0, "a start failed");
    expect_ok(tbcclBarrier(comm, nullptr), comm, found, "barrier");
    tbcclRequestFree(&again.request);
  });
}

// What may be allocated is stock: for more messages in flight at once than ever before. Sooner or
// later there is enough of it.
TEST_CASE("a thousand starts allocate nothing") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  constexpr int kStarts = 1000, kMost = 30;
  const size_t count = GENERATE(size_t{2}, size_t{3000});
  Job job(2);
  std::atomic<int> met{0};
  std::atomic<bool> late{false};
  const auto together = [&](int times) {
    met.fetch_add(1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (met.load() < 2 * times && !late.load()) {
      if (std::chrono::steady_clock::now() > end) late.store(true);
      std::this_thread::yield();
    }
  };
  std::atomic<bool> enough{false};
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    std::vector<float> in(count, 1), sum(count), news(count), got(count), self(count);
    tbcclRequest_t requests[7] = {};
    expect_ok(tbcclAllReduceInit(in.data(), sum.data(), count, tbcclFloat32, tbcclSum, comm,
                                 &requests[0]),
              comm, found, "all-reduce");
    expect_ok(
        tbcclBroadcastInit(in.data(), news.data(), count, tbcclFloat32, 0, comm, &requests[1]),
        comm, found, "broadcast");
    expect_ok(tbcclBarrierInit(comm, &requests[2]), comm, found, "barrier");
    expect_ok(
        tbcclRecvInit(got.data(), count, tbcclFloat32, TBCCL_ANY_SOURCE, 3, comm, &requests[3]),
        comm, found, "receive");
    expect_ok(tbcclSendInit(in.data(), count, tbcclFloat32, 1 - rank, 3, comm, &requests[4]), comm,
              found, "send");
    expect_ok(tbcclRecvInit(self.data(), count, tbcclFloat32, rank, 4, comm, &requests[5]), comm,
              found, "receive");
    expect_ok(tbcclSendInit(in.data(), count, tbcclFloat32, rank, 4, comm, &requests[6]), comm,
              found, "send");
    int times = 0;
    for (int batch = 0; batch < kMost && !enough.load() && !late.load(); ++batch) {
      together(++times);
      if (rank == 0) tbccl::testing::count_allocations(true);
      together(++times);
      for (int i = 0; i < kStarts; ++i) {
        expect_ok(tbcclStartAll(7, requests), comm, found, "start");
        for (tbcclRequest_t request : requests) {
          expect_ok(tbcclWait(request, -1), comm, found, "wait");
        }
        if (sum[0] != 2 || got[0] != 1 || news[0] != 1 || self[0] != 1) {
          found.expect(false, "wrong data");
        }
      }
      together(++times);
      if (rank == 0) {
        tbccl::testing::count_allocations(false);
        enough.store(tbccl::testing::counted_allocations() == 0);
      }
      together(++times);
    }
    for (tbcclRequest_t& request : requests) tbcclRequestFree(&request);
  });
  INFO(transports << ", " << count
                  << " elements; in the last thousand: " << tbccl::testing::counted_allocations());
  CHECK_FALSE(late.load());
  CHECK(enough.load());
}
