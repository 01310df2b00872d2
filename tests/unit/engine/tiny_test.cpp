// The tiny path: what is flattened, results beside those of the long way, and its failures.
#include "engine/tiny.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "group.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

std::shared_ptr<const engine::Plan> tiny_plan(const std::string& algorithm,
                                              const schedule::Collective& collective, int rank,
                                              int size) {
  auto plan = std::make_shared<engine::Plan>();
  const auto long_plan = make_plan(algorithm, collective, rank, size);
  plan->schedule = long_plan->schedule;
  plan->hash = long_plan->hash;
  plan->tiny = engine::TinyProgram::flatten(plan->schedule);
  return plan;
}

engine::Call short_call(int rank, int size, const std::vector<float>& in, std::vector<float>& out) {
  return all_reduce(tiny_plan("doubling", {}, rank, size), in.data(), out.data(), in.size());
}

TEST_CASE("schedules of one piece and few steps are flattened, others are not") {
  for (int size = 1; size <= 8; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      for (const bool in_place : {false, true}) {
        schedule::Collective collective;
        collective.in_place = in_place;
        INFO("rank " << rank << " of " << size << (in_place ? " in place" : ""));
        REQUIRE(tiny_plan("direct", collective, rank, size)->tiny != nullptr);
        REQUIRE(tiny_plan("doubling", collective, rank, size)->tiny != nullptr);
      }
    }
  }
  REQUIRE(tiny_plan("twostep", {}, 0, 4)->tiny == nullptr);
  REQUIRE(tiny_plan("ring", {}, 0, 4)->tiny == nullptr);
  REQUIRE(tiny_plan("direct", {}, 0, 40)->tiny == nullptr);
}

// Some ranks take the tiny path, others the long way: the others do not notice, and all have the
// same bits.
TEST_CASE("tiny and long calls meet, for any number of ranks, in place or not") {
  GroupOptions options;
  options.size = GENERATE(2, 3, 4, 5, 7);
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  const std::string algorithm = GENERATE("direct", "doubling");
  Group group(options);
  std::vector<std::string> wrong(options.size);
  group.each([&](int rank) {
    int call_number = 0;
    for (const bool in_place : {false, true}) {
      for (const bool scale : {false, true}) {
        for (const uint64_t count : {0, 1, 2, 5, 64}) {
          ++call_number;
          schedule::Collective collective;
          collective.in_place = in_place;
          collective.scale = scale;
          // A different mixture in every call; sometimes all are tiny, sometimes none.
          const bool tiny = (call_number * 7 + rank * call_number) % 3 != 0;
          std::vector<float> in(count + 1), out(count + 1, -7);
          for (uint64_t i = 0; i < count; ++i) in[i] = static_cast<float>(i + 10 * rank + 1);
          auto call = all_reduce(tiny ? tiny_plan(algorithm, collective, rank, options.size)
                                      : make_plan(algorithm, collective, rank, options.size),
                                 in.data(), in_place ? in.data() : out.data(), count);
          call.timeout_ns = 30'000 * kMillisecond;
          call.reduction.scaled = scale;
          if (scale) {
            const float scalar = 0.5f;
            std::memcpy(&call.reduction.scalar, &scalar, sizeof scalar);
          }
          const Status status = group.lane(rank).run(group.channel(rank), call);
          if (!status.ok()) {
            wrong[rank] = status.text();
            return;
          }
          const std::vector<float>& got = in_place ? in : out;
          const int n = options.size;
          for (uint64_t i = 0; i < count; ++i) {
            const float sum = static_cast<float>(n * (static_cast<int>(i) + 1) + 5 * n * (n - 1));
            if (got[i] != (scale ? sum / 2 : sum)) wrong[rank] = "element " + std::to_string(i);
          }
          if (got[count] != (in_place ? 0 : -7)) wrong[rank] = "written behind the end";
        }
      }
    }
  });
  for (const std::string& text : wrong) REQUIRE(text == "");
}

TEST_CASE("a tiny call has a deadline, and its memory is at rest afterwards") {
  GroupOptions options;
  options.size = 3;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  Group group(options);
  std::vector<float> in(8, 1), out(8, 0);
  auto call = short_call(0, 3, in, out);
  call.timeout_ns = 100 * kMillisecond;
  const Status result = group.lane(0).run(group.channel(0), call);
  INFO(result.text());
  REQUIRE(result.code() == tbcclTimeout);
  REQUIRE(result.text().find("operation 1") != std::string::npos);
  REQUIRE(result.text().find("rank 1") != std::string::npos);
  std::fill(out.begin(), out.end(), 12345.0f);
  // The others come too late for rank 0; nothing of theirs may reach its memory.
  std::vector<Status> late(3);
  for (int rank : {1, 2}) {
    std::vector<float> late_out(8, 0);
    auto late_call = short_call(rank, 3, in, late_out);
    late_call.timeout_ns = 100 * kMillisecond;
    late[rank] = group.lane(rank).run(group.channel(rank), late_call);
    REQUIRE(!late[rank].ok());
  }
  REQUIRE(std::all_of(out.begin(), out.end(), [](float x) { return x == 12345.0f; }));
}

TEST_CASE("abort releases a tiny call, and a lost peer fails it") {
  GroupOptions options;
  options.size = 2;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  const bool lost = GENERATE(false, true);
  Group group(options);
  std::vector<float> in(8, 1), out(8, 0);
  Status result;
  std::thread blocked(
      [&] { result = group.lane(0).run(group.channel(0), short_call(0, 2, in, out)); });
  // The call is active once its record says so.
  REQUIRE(eventually([&] { return group.lane(0).record(group.channel(0)).number == 1; }));
  const auto cause = Status(lost ? tbcclRemoteError : tbcclAborted, "for a test");
  if (lost) {
    group.lane(0).peer_gone(1, cause);
  } else {
    group.lane(0).fail(group.channel(0), cause);
  }
  blocked.join();
  REQUIRE(result.code() == cause.code());
  REQUIRE(group.events(0).broken_count(1) == 1);
  REQUIRE(group.lane(0).run(group.channel(0), short_call(0, 2, in, out)).code() == cause.code());
}

TEST_CASE("tiny calls with different arguments are an error on both sides") {
  Group group({.size = 2});
  std::vector<Status> results(2);
  group.each([&](int rank) {
    std::vector<float> in(8 + rank, 1), out(8 + rank, 0);
    auto call = short_call(rank, 2, in, out);
    call.fingerprint += static_cast<uint64_t>(rank);
    call.timeout_ns = 20'000 * kMillisecond;
    results[rank] = group.lane(rank).run(group.channel(rank), call);
  });
  for (const Status& status : results) REQUIRE(status.code() == tbcclInvalidUsage);
}

// While one thread waits in a tiny call, others submit on the same lane: theirs go on, and numbers
// stay in step with the other rank's.
TEST_CASE("other threads' calls go on while a tiny call waits") {
  GroupOptions options;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  options.channels = 2;
  Group group(options);
  constexpr int kRounds = 200;
  std::vector<std::string> wrong(4);
  group.each([&](int rank) {
    const auto loop = [&](int number, uint64_t count, std::string* text) {
      for (int i = 0; i < kRounds && text->empty(); ++i) {
        std::vector<float> in(count, static_cast<float>(rank + i)), out(count, 0);
        auto call = all_reduce(tiny_plan("direct", {}, rank, 2), in.data(), out.data(), count);
        call.timeout_ns = 30'000 * kMillisecond;
        const Status status = group.lane(rank).run(group.channel(rank, number), call);
        if (!status.ok()) *text = status.text();
        if (status.ok() && out[count - 1] != static_cast<float>(2 * i + 1)) *text = "wrong sum";
      }
    };
    std::thread other([&] { loop(1, 1000, &wrong[2 * rank + 1]); });
    loop(0, 3, &wrong[2 * rank]);
    other.join();
  });
  for (const std::string& text : wrong) REQUIRE(text == "");
}

}  // namespace
}  // namespace tbccl::testing
