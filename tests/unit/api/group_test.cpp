// Groups: messages in any order, small collectives that are joined, and that nobody can tell from
// the results.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "unit/api/job.h"
#include "unit/api/variables.h"

namespace {

std::string last(tbcclComm_t comm) { return tbcclGetLastError(comm); }

void expect_ok(tbcclResult_t result, tbcclComm_t comm, Findings& found, const char* what) {
  if (result == tbcclSuccess) return;
  found.expect(false, std::string(what) + ": " + std::to_string(result) + ", " + last(comm));
}

float value_of(int rank, int call, size_t i) {
  return 1.0f / static_cast<float>(1 + (rank * 31 + call * 17 + static_cast<int>(i) * 7) % 97);
}

}  // namespace

TEST_CASE("the messages of a group meet in whatever order they are given") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  constexpr int kMessages = 100;  // to each rank and from it
  const size_t count = GENERATE(size_t{3}, size_t{3000}, size_t{40000});
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const int messages = count > 10000 ? 12 : kMessages;
    std::vector<std::vector<int32_t>> out, in;
    std::vector<std::pair<int, bool>> order;  // message of a peer, and whether it is received
    for (int i = 0; i < 3 * messages; ++i) {
      out.emplace_back(count, 1000 * rank + i);
      in.emplace_back(count, -1);
      order.emplace_back(i, false);
      order.emplace_back(i, true);
    }
    // Sends first, receives first, or mixed; each rank has another order of peers. With itself,
    // too.
    if (rank == 1) std::reverse(order.begin(), order.end());
    if (rank == 2) {
      std::stable_sort(order.begin(), order.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
    }
    const bool blocks = count == 3;
    std::vector<tbcclRequest_t> requests(order.size(), nullptr);
    tbcclGroupStart();
    for (size_t k = 0; k < order.size(); ++k) {
      const auto [i, receives] = order[k];
      const int peer = i % 3, tag = i / 3;
      const auto at = static_cast<size_t>(i);
      tbcclRequest_t* const request = blocks ? nullptr : &requests[k];
      expect_ok(receives ? tbcclRecv(in[at].data(), count, tbcclInt32, peer, tag, comm, request)
                         : tbcclSend(out[at].data(), count, tbcclInt32, peer, tag, comm, request),
                comm, found, "message");
    }
    expect_ok(tbcclGroupEnd(), comm, found, "group");
    expect_ok(tbcclWaitAll(static_cast<int>(requests.size()), requests.data(), -1), comm, found,
              "wait");
    for (int i = 0; i < 3 * messages; ++i) {
      const auto& got = in[static_cast<size_t>(i)];
      const int32_t expected = 1000 * (i % 3) + i / 3 * 3 + rank;
      const bool right =
          std::all_of(got.begin(), got.end(), [&](int32_t value) { return value == expected; });
      found.expect(right, "message " + std::to_string(i) + " is " + std::to_string(got[0]));
    }
    for (tbcclRequest_t& request : requests) {
      if (request != nullptr) tbcclRequestFree(&request);
    }
  });
}

TEST_CASE("joined collectives have the bits of separate ones") {
  const char* const transports = GENERATE("shm", "tcp");
  const char* const algorithms =
      GENERATE("", "allreduce:direct", "allreduce:doubling", "allreduce:ring", "allreduce:twostep");
  const Variables variables{{"TBCCL_TRANSPORT", transports}, {"TBCCL_ALGO", algorithms}};
  const tbcclDataType_t type = GENERATE(tbcclFloat32, tbcclFloat16);
  const tbcclRedOp_t op = GENERATE(tbcclSum, tbcclAvg);
  INFO(transports << " " << algorithms);
  constexpr int kCalls = 24;
  const size_t width = type == tbcclFloat32 ? 4 : 2;
  Job job(4);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    using Bytes = std::vector<unsigned char>;
    std::vector<Bytes> inputs, separate, grouped;
    std::vector<size_t> counts;
    for (int call = 0; call < kCalls; ++call) {
      // None, a few, and some that are too long to be joined.
      const size_t count = call % 5 == 3 ? 0 : call % 7 == 6 ? 3000 : static_cast<size_t>(call) + 1;
      counts.push_back(count);
      Bytes bytes(count * width);
      for (size_t i = 0; i < count; ++i) {
        const float value = value_of(rank, call, i);
        if (width == 4) std::memcpy(bytes.data() + 4 * i, &value, 4);
        // Any number between 1 and 2 will do.
        const auto half = static_cast<uint16_t>(0x3c00 + static_cast<int>(value * 1000) % 1024);
        if (width == 2) std::memcpy(bytes.data() + 2 * i, &half, 2);
      }
      inputs.push_back(bytes);
      separate.push_back(bytes);
      // One byte more than may be written.
      bytes.assign(count * width + 1, 0xab);
      if (call % 2 != 0) std::copy(inputs.back().begin(), inputs.back().end(), bytes.begin());
      grouped.push_back(bytes);
    }
    for (size_t call = 0; call < kCalls; ++call) {
      expect_ok(tbcclAllReduce(inputs[call].data(), separate[call].data(), counts[call], type, op,
                               comm, nullptr),
                comm, found, "all-reduce");
    }
    const auto before = inputs;
    for (const bool blocks : {true, false}) {
      std::vector<tbcclRequest_t> requests(kCalls, nullptr);
      tbcclGroupStart();
      for (size_t call = 0; call < kCalls; ++call) {
        if (call % 2 != 0)
          std::copy(inputs[call].begin(), inputs[call].end(), grouped[call].begin());
        const void* const input = call % 2 != 0 ? grouped[call].data() : inputs[call].data();
        // Only some are waited for at the end, and on one rank alone.
        const bool here = blocks || (rank == 2 && call % 3 == 0);
        expect_ok(tbcclAllReduce(input, grouped[call].data(), counts[call], type, op, comm,
                                 here ? nullptr : &requests[call]),
                  comm, found, "all-reduce");
      }
      expect_ok(tbcclGroupEnd(), comm, found, "group");
      // From several threads: one request each, also of calls that were joined.
      if (!blocks) {
        std::atomic<bool> failed{false};
        std::vector<std::thread> waiters;
        for (size_t first = 0; first < 3; ++first) {
          waiters.emplace_back([&, first] {
            for (size_t call = first; call < kCalls; call += 3) {
              if (requests[call] == nullptr) continue;
              if (tbcclWait(requests[call], -1) != tbcclSuccess) failed.store(true);
            }
          });
        }
        for (std::thread& waiter : waiters) waiter.join();
        found.expect(!failed.load(), "a wait failed: " + last(comm));
      }
      for (tbcclRequest_t& request : requests) {
        if (request != nullptr) tbcclRequestFree(&request);
      }
      for (size_t call = 0; call < kCalls; ++call) {
        found.expect(grouped[call].back() == 0xab, "written beyond the end");
        found.expect(
            std::equal(separate[call].begin(), separate[call].end(), grouped[call].begin()),
            "other bits in call " + std::to_string(call));
      }
      found.expect(inputs == before, "a send buffer was written");
      for (size_t call = 0; call < kCalls; call += 2)
        grouped[call].assign(grouped[call].size(), 0xab);
    }
  });
}

TEST_CASE("joined broadcasts, barriers between, and messages among them") {
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  Job job(3);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    for (int round = 0; round < 10; ++round) {
      std::vector<int32_t> news(30, rank * 100), sums(4, rank);
      int32_t message = rank, got = -1;
      tbcclGroupStart();
      for (int i = 0; i < 30; ++i) {
        news[static_cast<size_t>(i)] += i;
        const int root = i < 20 ? 1 : i % 2 * 2;
        expect_ok(tbcclBroadcast(&news[static_cast<size_t>(i)], &news[static_cast<size_t>(i)], 1,
                                 tbcclInt32, root, comm, nullptr),
                  comm, found, "broadcast");
        // Each rank has its messages somewhere else.
        if (i == 5 + rank) tbcclSend(&message, 1, tbcclInt32, (rank + 1) % 3, 0, comm, nullptr);
        if (i == 15 - 5 * rank) tbcclRecv(&got, 1, tbcclInt32, (rank + 2) % 3, 0, comm, nullptr);
        if (i == 12) expect_ok(tbcclBarrier(comm, nullptr), comm, found, "barrier");
      }
      for (int32_t& sum : sums) {
        expect_ok(tbcclAllReduce(&sum, &sum, 1, tbcclInt32, tbcclMax, comm, nullptr), comm, found,
                  "all-reduce");
      }
      expect_ok(tbcclGroupEnd(), comm, found, "group");
      for (int i = 0; i < 30; ++i) {
        const int root = i < 20 ? 1 : i % 2 * 2;
        found.expect(news[static_cast<size_t>(i)] == root * 100 + i, "wrong news");
      }
      found.expect(got == (rank + 2) % 3, "wrong message");
      found.expect(sums == std::vector<int32_t>(4, 2), "wrong maxima");
    }
  });
}

TEST_CASE("a joined call's parts keep their callbacks, deadlines and errors") {
  Job job(2);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    std::atomic<int> called{0};
    int32_t values[3] = {1, 2, 3};
    const auto call_of = [&](int i) {
      tbcclCall_t call = TBCCL_CALL_INITIALIZER;
      call.comm = comm;
      call.sendbuff = call.recvbuff = &values[i];
      call.count = 1;
      call.datatype = tbcclInt32;
      return call;
    };
    tbcclRequest_t requests[3] = {};
    tbcclGroupStart();
    for (int i = 0; i < 3; ++i) {
      tbcclCall_t call = call_of(i);
      if (i != rank) {
        call.callback = [](void* context, tbcclResult_t result) {
          static_cast<std::atomic<int>*>(context)->fetch_add(result == tbcclSuccess ? 1 : 100);
        };
        call.callbackContext = &called;
      }
      expect_ok(tbcclSubmit(&call, &requests[i]), comm, found, "submit");
    }
    expect_ok(tbcclGroupEnd(), comm, found, "group");
    expect_ok(tbcclWaitAll(3, requests, -1), comm, found, "wait");
    for (int i = 0; i < 3; ++i) found.expect(values[i] == 2 * (i + 1), "wrong sum");
    for (int i = 0; i < 20000 && called.load() != 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    found.expect(called.load() == 2, "callbacks: " + std::to_string(called.load()));
    for (tbcclRequest_t& request : requests) tbcclRequestFree(&request);
    // Other calls in the group of the other rank.
    tbcclGroupStart();
    for (int i = 0; i < 2 + rank; ++i) {
      tbcclCall_t call = call_of(i);
      call.timeoutMs = 20'000;
      expect_ok(tbcclSubmit(&call, nullptr), comm, found, "submit");
    }
    const tbcclResult_t result = tbcclGroupEnd();
    found.expect(result == tbcclInvalidUsage, std::to_string(result) + ": " + last(comm));
    found.expect(last(comm).find("more of its group") != std::string::npos, last(comm));
  });
}

TEST_CASE("calls with start conditions in a group start when these fire, and are not joined") {
  Job job(2);
  job.each([&](int, tbcclComm_t comm, Findings& found) {
    uint32_t flag = 0;
    int32_t values[3] = {1, 2, 3};
    tbcclRequest_t requests[3] = {};
    tbcclGroupStart();
    for (int i = 0; i < 3; ++i) {
      tbcclCall_t call = TBCCL_CALL_INITIALIZER;
      call.comm = comm;
      call.sendbuff = call.recvbuff = &values[i];
      call.count = 1;
      call.datatype = tbcclInt32;
      if (i == 1) {
        call.startWhen = tbcclStartWhenFlag;
        call.flag = &flag;
        call.flagValue = 1;
      }
      expect_ok(tbcclSubmit(&call, &requests[i]), comm, found, "submit");
    }
    expect_ok(tbcclGroupEnd(), comm, found, "group");
    // The first does not wait for the second's condition.
    expect_ok(tbcclWait(requests[0], -1), comm, found, "wait");
    __atomic_store_n(&flag, 1u, __ATOMIC_RELEASE);
    expect_ok(tbcclWaitAll(3, requests, -1), comm, found, "wait");
    found.expect(values[0] == 2 && values[1] == 4 && values[2] == 6, "wrong sums");
    for (tbcclRequest_t& request : requests) tbcclRequestFree(&request);
  });
}

TEST_CASE("one thread drives all ranks by groups of several calls") {
  Job job(3);
  for (int round = 0; round < 20; ++round) {
    int32_t values[3][8];
    tbcclGroupStart();
    for (int call = 0; call < 8; ++call) {
      for (int rank = 0; rank < 3; ++rank) {
        values[rank][call] = rank + call;
        REQUIRE(tbcclAllReduce(&values[rank][call], &values[rank][call], 1, tbcclInt32, tbcclSum,
                               job[rank], nullptr) == tbcclSuccess);
      }
    }
    REQUIRE(tbcclGroupEnd() == tbcclSuccess);
    for (int call = 0; call < 8; ++call) {
      for (int rank = 0; rank < 3; ++rank) REQUIRE(values[rank][call] == 3 + 3 * call);
    }
  }
}

// Not a test: what joining saves; "unit-api [measure]" prints it.
TEST_CASE("a group of 32 short all-reduces against 32 calls", "[.][measure]") {
  using Clock = std::chrono::steady_clock;
  const char* const transports = GENERATE("shm", "tcp");
  const Variables variables{{"TBCCL_TRANSPORT", transports}};
  constexpr int kCalls = 32, kRounds = 2000;
  Job job(2);
  double microseconds[2] = {};
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    double values[kCalls] = {};
    for (const bool grouped : {false, true}) {
      for (const int rounds : {100, kRounds}) {
        expect_ok(tbcclBarrier(comm, nullptr), comm, found, "barrier");
        const auto start = Clock::now();
        for (int round = 0; round < rounds; ++round) {
          if (grouped) tbcclGroupStart();
          for (double& value : values) {
            expect_ok(tbcclAllReduce(&value, &value, 1, tbcclFloat64, tbcclSum, comm, nullptr),
                      comm, found, "all-reduce");
          }
          if (grouped) expect_ok(tbcclGroupEnd(), comm, found, "group");
        }
        const std::chrono::duration<double, std::micro> took = Clock::now() - start;
        if (rank == 0) microseconds[grouped ? 1 : 0] = took.count() / rounds;
      }
    }
  });
  WARN(transports << ": 32 calls " << microseconds[0] << " us, a group of 32 " << microseconds[1]
                  << " us");
}
