// Point-to-point: tags, order, any source, messages to oneself.
#include <cstring>
#include <numeric>
#include <vector>

#include "group.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

std::vector<uint8_t> pattern(uint64_t bytes, int seed) {
  std::vector<uint8_t> data(bytes);
  for (uint64_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i * 31 + i / 251 + seed);
  return data;
}

TEST_CASE("messages of every size, with tags received in another order") {
  GroupOptions options;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  Group group(options);
  const std::vector<uint64_t> sizes{0,       1,          1000,           64 * 1024, 64 * 1024 + 1,
                                    100'000, 128 * 1024, 128 * 1024 + 1, 300'000,   3'000'000};
  std::atomic<int> wrong{0};
  group.each([&](int rank) {
    const int peer = 1 - rank;
    std::vector<std::vector<uint8_t>> out, in;
    std::vector<engine::Request*> requests;
    const auto submit = [&](const engine::Call& call) {
      engine::Request* request = nullptr;
      if (!group.lane(rank).submit(group.channel(rank), call, &request).ok()) ++wrong;
      requests.push_back(request);
    };
    for (size_t i = 0; i < sizes.size(); ++i) {
      out.push_back(pattern(sizes[i], static_cast<int>(i) + rank));
      in.emplace_back(sizes[i]);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      submit(send_call(out[i].data(), sizes[i], peer, static_cast<int>(i)));
    }
    for (size_t i = sizes.size(); i-- > 0;) {
      submit(recv_call(in[i].data(), sizes[i], peer, static_cast<int>(i)));
    }
    for (engine::Request* request : requests) {
      if (!group.lane(rank).wait(request, kNever).ok()) ++wrong;
      group.lane(rank).release(request);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (in[i] != pattern(sizes[i], static_cast<int>(i) + peer)) ++wrong;
    }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("messages with one tag are received in the order sent") {
  GroupOptions options;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  options.trunks = 2;
  Group group(options);
  constexpr int kMessages = 300;
  std::atomic<int> wrong{0};
  group.each([&](int rank) {
    for (int i = 0; i < kMessages; ++i) {
      int number = i;
      const auto call = rank == 0 ? send_call(&number, sizeof number, 1, 3)
                                  : recv_call(&number, sizeof number, 0, 3);
      if (rank == 1) number = -1;
      if (!group.lane(rank).run(group.channel(rank), call).ok() || number != i) ++wrong;
    }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("receives from any source match in the order posted, and name their source") {
  Group group({.size = 4});
  constexpr int kEach = 25;
  constexpr uint64_t kBytes = 200'000;  // larger than what is sent without a grant
  std::atomic<int> wrong{0};
  group.each([&](int rank) {
    if (rank > 0) {
      for (int i = 0; i < kEach; ++i) {
        auto data = pattern(kBytes, rank * 100 + i);
        if (!group.lane(rank).run(group.channel(rank), send_call(data.data(), kBytes, 0, 9)).ok()) {
          ++wrong;
        }
      }
      return;
    }
    std::vector<int> next(4, 0);
    std::vector<std::vector<uint8_t>> in(3 * kEach, std::vector<uint8_t>(kBytes));
    std::vector<engine::Request*> requests(3 * kEach);
    for (int i = 0; i < 3 * kEach; ++i) {
      const auto call = recv_call(in[i].data(), kBytes, TBCCL_ANY_SOURCE, 9);
      if (!group.lane(0).submit(group.channel(0), call, &requests[i]).ok()) ++wrong;
    }
    for (int i = 0; i < 3 * kEach; ++i) {
      if (!group.lane(0).wait(requests[i], kNever).ok()) ++wrong;
      const int source = group.lane(0).source(requests[i]);
      if (source < 1 || source > 3) {
        ++wrong;
        continue;
      }
      if (in[i] != pattern(kBytes, source * 100 + next[source]++)) ++wrong;
      group.lane(0).release(requests[i]);
    }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("a receive from one source waits behind an earlier one from any") {
  Group group({.size = 2});
  uint32_t in[2] = {0, 0};
  engine::Request* receives[2] = {};
  REQUIRE(group.lane(0)
              .submit(group.channel(0), recv_call(&in[0], 4, TBCCL_ANY_SOURCE, 1), &receives[0])
              .ok());
  REQUIRE(group.lane(0).submit(group.channel(0), recv_call(&in[1], 4, 1, 1), &receives[1]).ok());
  for (uint32_t i = 1; i <= 2; ++i) {
    REQUIRE(group.lane(1).run(group.channel(1), send_call(&i, 4, 0, 1)).ok());
  }
  for (engine::Request* receive : receives) {
    REQUIRE(group.lane(0).wait(receive, kNever).ok());
    REQUIRE(group.lane(0).source(receive) == 1);
    group.lane(0).release(receive);
  }
  REQUIRE(in[0] == 1);
  REQUIRE(in[1] == 2);
}

TEST_CASE("messages that come before their receive wait for it") {
  Group group({.size = 2});
  std::vector<std::vector<uint8_t>> out, in;
  std::vector<engine::Request*> sends(10);
  for (int i = 0; i < 10; ++i) {
    out.push_back(pattern(5000u * (i + 1), i));
    in.emplace_back(out[i].size());
    REQUIRE(
        group.lane(1)
            .submit(group.channel(1), send_call(out[i].data(), out[i].size(), 0, i % 2), &sends[i])
            .ok());
  }
  for (int i = 0; i < 10; ++i) {
    const int peer = i % 3 == 0 ? TBCCL_ANY_SOURCE : 1;
    REQUIRE(group.lane(0)
                .run(group.channel(0), recv_call(in[i].data(), in[i].size(), peer, i % 2))
                .ok());
    REQUIRE(in[i] == out[i]);
  }
  for (engine::Request* send : sends) {
    REQUIRE(group.lane(1).wait(send, kNever).ok());
    group.lane(1).release(send);
  }
}

TEST_CASE("messages to oneself") {
  Group group({.size = 2});
  engine::Lane& lane = group.lane(0);
  engine::Channel* const channel = group.channel(0);
  const auto out = pattern(200'000, 4);
  std::vector<std::vector<uint8_t>> in(3, std::vector<uint8_t>(out.size()));
  engine::Request* requests[6] = {};
  // Receive first, send first, any source.
  REQUIRE(lane.submit(channel, recv_call(in[0].data(), out.size(), 0, 5), &requests[0]).ok());
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(lane.submit(channel, send_call(out.data(), out.size(), 0, 5), &requests[i]).ok());
  }
  REQUIRE(lane.submit(channel, recv_call(in[1].data(), out.size(), 0, 5), &requests[4]).ok());
  REQUIRE(
      lane.submit(channel, recv_call(in[2].data(), out.size(), TBCCL_ANY_SOURCE, 5), &requests[5])
          .ok());
  for (engine::Request* request : requests) {
    REQUIRE(lane.wait(request, kNever).ok());
    lane.release(request);
  }
  for (const auto& data : in) REQUIRE(data == out);
}

}  // namespace
}  // namespace tbccl::testing
