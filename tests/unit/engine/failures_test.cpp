// Deadlines, aborts, mismatches and lost peers: what breaks, what is said, and that memory given to
// a failed call is at rest afterwards.
#include <unistd.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "group.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kCount = 1'000'000;

engine::Call large(int rank, int size, std::vector<float>& input, std::vector<float>& output,
                   const char* algorithm = "ring") {
  return all_reduce(make_plan(algorithm, {}, rank, size), input.data(), output.data(),
                    input.size());
}

// Writes a pattern over memory that a failed call had, and sees whether anybody touches it. The
// longer it looks, the likelier a late write is caught; memory at rest passes in any time.
bool at_rest(std::vector<float>& memory) {
  std::fill(memory.begin(), memory.end(), 12345.0f);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return std::all_of(memory.begin(), memory.end(), [](float x) { return x == 12345.0f; });
}

TEST_CASE("a deadline names the operation and who is waited for, and breaks the channel") {
  GroupOptions options;
  options.size = 3;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  options.channels = 2;
  Group group(options);
  std::vector<float> input(kCount, 1), output(kCount, 0);
  auto call = large(0, 3, input, output);
  call.timeout_ns = 200 * kMillisecond;
  const Status result = group.lane(0).run(group.channel(0), call);
  INFO(result.text());
  REQUIRE(result.code() == tbcclTimeout);
  REQUIRE(result.text().find("all-reduce of 1000000 elements") != std::string::npos);
  REQUIRE(result.text().find("operation 1") != std::string::npos);
  REQUIRE(result.text().find("rank 1") != std::string::npos);
  REQUIRE(group.lane(0).state(group.channel(0)).code() == tbcclTimeout);
  REQUIRE(group.lane(0).run(group.channel(0), call).text() == result.text());
  REQUIRE(group.events(0).broken_count(1) == 1);
  REQUIRE(at_rest(output));
  // The other communicator is as good as before.
  std::vector<Status> results(3);
  group.each([&](int rank) {
    std::vector<float> in(100, 1), out(100, 0);
    results[rank] = group.lane(rank).run(group.channel(rank, 1), large(rank, 3, in, out));
    if (out[99] != 3) results[rank] = Status(tbcclInternalError, "wrong sum");
  });
  for (const Status& status : results) REQUIRE(status.text() == "");
}

TEST_CASE("abort while ranks are blocked in the middle of a transfer") {
  GroupOptions options;
  options.size = 3;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  Group group(options);
  // Rank 2 never joins, so that the others block half-way, each with sends and receives open.
  std::vector<std::vector<float>> in(2, std::vector<float>(kCount, 1)),
      out(2, std::vector<float>(kCount, 0));
  std::vector<std::vector<float>> more_in(2, std::vector<float>(kCount, 1)),
      more_out(2, std::vector<float>(kCount, 0));
  std::vector<engine::Request*> behind(2);
  std::vector<Status> results(2);
  std::vector<std::thread> blocked;
  for (int rank = 0; rank < 2; ++rank) {
    REQUIRE(group.lane(rank)
                .submit(group.channel(rank), large(rank, 3, more_in[rank], more_out[rank]),
                        &behind[rank])
                .ok());
    blocked.emplace_back([&, rank] {
      results[rank] =
          group.lane(rank).run(group.channel(rank), large(rank, 3, in[rank], out[rank]));
    });
  }
  // Makes it likely that both are in the middle; a call that comes too late fails the same way.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const uint64_t start = now_ns();
  for (int rank = 0; rank < 2; ++rank) {
    group.lane(rank).fail(group.channel(rank), Status(tbcclAborted, "aborted by the test"));
    group.lane(rank).fail(group.channel(rank), Status(tbcclRemoteError, "too late"));
  }
  for (std::thread& thread : blocked) thread.join();
  REQUIRE(now_ns() - start < 5'000 * kMillisecond);
  for (int rank = 0; rank < 2; ++rank) {
    REQUIRE(results[rank].code() == tbcclAborted);
    REQUIRE(group.lane(rank).wait(behind[rank], kNever).code() == tbcclAborted);
    REQUIRE(at_rest(out[rank]));
    REQUIRE(at_rest(more_out[rank]));
    group.lane(rank).release(behind[rank]);
    REQUIRE(group.events(rank).broken_count(1) == 1);
  }
}

TEST_CASE("different arguments are an error that shows this rank's") {
  Group group({.size = 2});
  std::vector<Status> results(2);
  group.each([&](int rank) {
    std::vector<float> in(1000 + rank, 1), out(1000 + rank, 0);
    auto call = large(rank, 2, in, out, "direct");
    call.timeout_ns = 20'000 * kMillisecond;
    results[rank] = group.lane(rank).run(group.channel(rank), call);
    // What comm/ does for the other ranks.
    group.lane(1 - rank).fail(group.channel(1 - rank), results[rank]);
  });
  for (int rank = 0; rank < 2; ++rank) {
    INFO(results[rank].text());
    REQUIRE(results[rank].code() == tbcclInvalidUsage);
  }
  REQUIRE((results[0].text().find("all-reduce of 1000 elements") != std::string::npos ||
           results[1].text().find("all-reduce of 1001 elements") != std::string::npos));
}

TEST_CASE("a lost peer breaks the channels it is a member of, naming it") {
  GroupOptions options;
  options.size = 3;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  Group group(options);
  std::vector<std::vector<float>> in(2, std::vector<float>(kCount, 1)),
      out(2, std::vector<float>(kCount, 0));
  std::vector<Status> results(2);
  std::vector<std::thread> blocked;
  for (int rank = 0; rank < 2; ++rank) {
    blocked.emplace_back([&, rank] {
      results[rank] =
          group.lane(rank).run(group.channel(rank), large(rank, 3, in[rank], out[rank]));
    });
  }
  // Makes it likely that both are in the middle; a call that comes too late fails the same way.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  group.drop(2);
  for (std::thread& thread : blocked) thread.join();
  for (int rank = 0; rank < 2; ++rank) {
    INFO(results[rank].text());
    REQUIRE(results[rank].code() == tbcclRemoteError);
    REQUIRE(results[rank].text().find("rank 2") != std::string::npos);
    REQUIRE(at_rest(out[rank]));
  }
}

TEST_CASE("the control plane's word that a peer is gone is believed at once") {
  Group group({.size = 2});
  std::vector<float> in(10, 1), out(10, 0);
  Status result;
  std::thread blocked([&] { result = group.lane(0).run(group.channel(0), large(0, 2, in, out)); });
  // Makes it likely that the call waits already; one that comes later is told the same.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  group.lane(0).peer_gone(1, Status(tbcclRemoteError, "rank 1 is gone: said the test"));
  blocked.join();
  REQUIRE(result.text() == "rank 1 is gone: said the test");
}

TEST_CASE("a start condition that does not fire in time breaks the channel, naming it") {
  Group group({.size = 1});
  const bool descriptor = GENERATE(false, true);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const uint32_t flag = 0;
  std::vector<float> input(10, 1), output(10, 0);
  auto call = large(0, 1, input, output, "direct");
  call.start_when = descriptor ? tbcclStartWhenDescriptor : tbcclStartWhenFlag;
  call.descriptor = ends[0];
  call.flag = &flag;
  call.flag_value = 7;
  call.timeout_ns = 1'000 * kMillisecond;  // long enough for `behind` to be submitted meanwhile
  engine::Request *gated = nullptr, *behind = nullptr;
  REQUIRE(group.lane(0).submit(group.channel(0), call, &gated).ok());
  auto after = large(0, 1, input, output, "direct");
  after.timeout_ns = 0;
  REQUIRE(group.lane(0).submit(group.channel(0), after, &behind).ok());
  if (descriptor) {  // whoever waits, or the worker alone
    REQUIRE(group.lane(0).wait(gated, kNever).code() == tbcclTimeout);
  }
  Status result;
  REQUIRE(eventually([&] { return group.lane(0).test(gated, &result); }));
  INFO(result.text());
  REQUIRE(result.code() == tbcclTimeout);
  REQUIRE(result.text().find("all-reduce of 10 elements, operation 1") != std::string::npos);
  REQUIRE(result.text().find("start condition has not fired within 1 s") != std::string::npos);
  const std::string condition =
      descriptor ? "descriptor " + std::to_string(ends[0]) : "the flag has the value 7";
  REQUIRE(result.text().find(condition) != std::string::npos);
  REQUIRE(group.lane(0).wait(behind, kNever).text() == result.text());
  REQUIRE(group.lane(0).run(group.channel(0), after).text() == result.text());
  REQUIRE(group.events(0).broken_count(1) == 1);
  group.lane(0).release(gated);
  group.lane(0).release(behind);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("the time of a call begins anew when its start condition fires") {
  Group group({.size = 2});
  uint32_t flag = 0;
  std::vector<float> input(10, 1), output(10, 0);
  auto call = large(0, 2, input, output, "direct");
  call.start_when = tbcclStartWhenFlag;
  call.flag = &flag;
  call.flag_value = 1;
  call.timeout_ns = 3'000 * kMillisecond;
  engine::Request* gated = nullptr;
  REQUIRE(group.lane(0).submit(group.channel(0), call, &gated).ok());
  REQUIRE(group.lane(0).wait(gated, 800 * kMillisecond).code() == tbcclInProgress);
  const uint64_t fired = now_ns();
  __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
  const Status result = group.lane(0).wait(gated, kNever);
  INFO(result.text());
  REQUIRE(result.code() == tbcclTimeout);
  REQUIRE(result.text().find("did not finish within 3 s") != std::string::npos);
  REQUIRE(now_ns() - fired >= call.timeout_ns);  // all of it, not what the condition had left
  group.lane(0).release(gated);
}

TEST_CASE("a call that waits behind others that do not move ends by its own time") {
  Group group({.size = 2});
  std::vector<float> in(kCount, 1), out(kCount, 0);
  std::vector<engine::Request*> before;
  uint32_t flag = 0;
  std::string why;
  SECTION("behind a start condition without a time-out") {
    auto gated = large(0, 2, in, out, "direct");
    gated.start_when = tbcclStartWhenFlag;
    gated.flag = &flag;
    gated.flag_value = 1;
    gated.timeout_ns = 0;
    before.resize(1);
    REQUIRE(group.lane(0).submit(group.channel(0), gated, &before[0]).ok());
    why = "which waits for its start condition";
  }
  SECTION("behind as many operations as may be active, without a time-out") {
    before.resize(32);
    for (engine::Request*& request : before) {
      auto ahead = large(0, 2, in, out);
      ahead.timeout_ns = 0;
      REQUIRE(group.lane(0).submit(group.channel(0), ahead, &request).ok());
    }
    why = "which has not finished and waits for rank 1";
  }
  auto call = large(0, 2, in, out);
  call.timeout_ns = 300 * kMillisecond;
  const Status result = group.lane(0).run(group.channel(0), call);
  INFO(result.text());
  REQUIRE(result.code() == tbcclTimeout);
  REQUIRE(result.text().find("has not started on rank 0") != std::string::npos);
  REQUIRE(result.text().find("for 0.3 s") != std::string::npos);
  REQUIRE(result.text().find(why) != std::string::npos);
  for (engine::Request* request : before) {
    REQUIRE(group.lane(0).wait(request, kNever).text() == result.text());
    group.lane(0).release(request);
  }
  REQUIRE(at_rest(out));
}

TEST_CASE("a call waits behind others that move for as long as they do") {
  Group group({.size = 2});
  constexpr int kCalls = 6;
  std::vector<float> in(10, 1);
  std::vector<std::vector<float>> out(kCalls, std::vector<float>(10, 0));
  std::vector<uint32_t> flags(kCalls, 0);
  std::vector<engine::Request*> requests(kCalls);
  // Each starts 200 ms after the one before it: together they take longer than the last one's time.
  for (int i = 0; i < kCalls; ++i) {
    auto call = large(0, 2, in, out[i], "direct");
    call.start_when = tbcclStartWhenFlag;
    call.flag = &flags[i];
    call.flag_value = 1;
    call.timeout_ns = i + 1 < kCalls ? 0 : 1'000 * kMillisecond;
    REQUIRE(group.lane(0).submit(group.channel(0), call, &requests[i]).ok());
  }
  std::vector<float> other(10, 0);
  for (int i = 0; i < kCalls; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    __atomic_store_n(&flags[i], 1, __ATOMIC_RELEASE);
    const Status there = group.lane(1).run(group.channel(1), large(1, 2, in, other, "direct"));
    INFO(there.text());
    REQUIRE(there.ok());
    REQUIRE(group.lane(0).wait(requests[i], kNever).text() == "");
    REQUIRE(out[i][9] == 2);
    group.lane(0).release(requests[i]);
  }
}

TEST_CASE("the other ranks are told why before a failed call returns") {
  Group group({.size = 2});
  std::vector<float> in(10, 1), out(10, 0);
  auto call = large(0, 2, in, out);
  call.timeout_ns = kMillisecond;
  engine::Request* request = nullptr;
  REQUIRE(group.lane(0).submit(group.channel(0), call, &request).ok());
  Status result;
  while (!group.lane(0).test(request, &result)) std::this_thread::yield();
  REQUIRE(group.events(0).broken_count(1) == 1);
  group.lane(0).release(request);
}

TEST_CASE("a call without memory for its scratch fails, and what follows it") {
  Group group({.size = 2, .channels = 2});
  // No ring slots: the scratch is as long as the vector.
  auto plan = std::make_shared<engine::Plan>(*make_plan("direct", {}, 0, 2));
  for (schedule::Phase& phase : plan->schedule.phases) phase.consumer = -1;
  std::vector<float> input(10, 1), output(10, 0);
  const auto call = all_reduce(plan, input.data(), output.data(), uint64_t{1} << 61);
  const bool by_worker = GENERATE(false, true);
  Status result;
  if (by_worker) {
    engine::Request* request = nullptr;
    REQUIRE(group.lane(0).submit(group.channel(0), call, &request).ok());
    REQUIRE(eventually([&] { return group.lane(0).test(request, &result); }));
    group.lane(0).release(request);
  } else {
    result = group.lane(0).run(group.channel(0), call);
  }
  INFO(result.text());
  REQUIRE(result.code() == tbcclSystemError);
  REQUIRE(result.text().find("all-reduce of 2305843009213693952 elements") != std::string::npos);
  REQUIRE(result.text().find("bytes of scratch") != std::string::npos);
  REQUIRE(group.events(0).broken_count(1) == 1);
  engine::Request* later = nullptr;
  REQUIRE(group.lane(0).submit(group.channel(0), call, &later).text() == result.text());
  REQUIRE(output[0] == 0);
  // The other communicator is as good as before.
  std::vector<Status> results(2);
  group.each([&](int rank) {
    std::vector<float> in(100, 1), out(100, 0);
    results[rank] = group.lane(rank).run(group.channel(rank, 1), large(rank, 2, in, out));
  });
  for (const Status& status : results) REQUIRE(status.text() == "");
}

TEST_CASE("an exception of a holder neither keeps the token nor ends the process") {
  Group group({.size = 2});
  REQUIRE_THROWS_AS(
      group.lane(0).drive([](link::Links&) -> bool { throw std::bad_alloc(); }, kNever),
      std::bad_alloc);
  REQUIRE_THROWS_AS(group.lane(0).with_links([](link::Links&) { throw std::bad_alloc(); }),
                    std::bad_alloc);
  std::vector<Status> results(2);
  group.each([&](int rank) {
    std::vector<float> in(100, 1), out(100, 0);
    results[rank] = group.lane(rank).run(group.channel(rank), large(rank, 2, in, out));
  });
  for (const Status& status : results) REQUIRE(status.text() == "");
}

TEST_CASE("an exception in the middle of the work fails every communicator of the lane") {
  Group group({.size = 1, .channels = 2});
  const bool memory = GENERATE(false, true);
  std::vector<float> input(10, 1), output(10, 0);
  // The message of a channel that breaks is made by the call's description.
  auto call = large(0, 1, input, output, "direct");
  call.describe = memory ? +[](const engine::Call&) -> std::string { throw std::bad_alloc(); }
  : +[](const engine::Call&) -> std::string { throw std::out_of_range("x"); };
  call.start_when = tbcclStartWhenDescriptor;
  call.descriptor = 1'000'000;
  engine::Request* request = nullptr;
  REQUIRE(group.lane(0).submit(group.channel(0), call, &request).ok());
  Status result;
  REQUIRE(eventually([&] { return group.lane(0).test(request, &result); }));
  INFO(result.text());
  REQUIRE(result.code() == (memory ? tbcclSystemError : tbcclInternalError));
  REQUIRE(group.lane(0).state(group.channel(0, 1)).text() == result.text());
  REQUIRE(group.events(0).broken_count(1) == 1);
  REQUIRE(group.events(0).broken_count(2) == 1);
  group.lane(0).release(request);
}

TEST_CASE("a receive from any source waits for everybody else") {
  Group group({.size = 3});
  std::vector<uint8_t> data(10), more(10);
  engine::Request *request = nullptr, *short_lived = nullptr;
  REQUIRE(group.lane(1)
              .submit(group.channel(1), recv_call(data.data(), 10, TBCCL_ANY_SOURCE, 1), &request)
              .ok());
  REQUIRE(group.lane(1).wait(request, 20 * kMillisecond).code() == tbcclInProgress);
  REQUIRE(group.lane(1).record(group.channel(1)).waiting_for == std::vector<int>{0, 2});
  auto call = recv_call(more.data(), 10, TBCCL_ANY_SOURCE, 2);
  call.timeout_ns = 300 * kMillisecond;
  REQUIRE(group.lane(1).submit(group.channel(1), call, &short_lived).ok());
  const Status result = group.lane(1).wait(short_lived, kNever);
  INFO(result.text());
  REQUIRE(result.code() == tbcclTimeout);
  REQUIRE(result.text().find("rank 1 waits for a message from any rank") != std::string::npos);
  REQUIRE(group.lane(1).wait(request, kNever).text() == result.text());
  group.lane(1).release(request);
  group.lane(1).release(short_lived);
}

// A hook that cannot be copied again stands for a system that refuses a thread.
struct Refusing {
  std::shared_ptr<int> copies;
  explicit Refusing(int allowed) : copies(std::make_shared<int>(allowed)) {}
  Refusing(const Refusing& other) : copies(other.copies) {
    if ((*copies)-- <= 0) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
  }
  void operator()() const {}
};

TEST_CASE("the worker's hook runs once; without a worker a lane is in error, and ends cleanly") {
  Events events;
  link::Options links;
  links.rank = 0;
  links.size = 1;
  engine::LaneOptions options;
  std::atomic<int> started{0};
  options.worker_started = [&started] { ++started; };
  {
    engine::Lane lane(options, links, events);
    REQUIRE(lane.status().ok());
    REQUIRE(eventually([&] { return started == 1; }));
  }
  REQUIRE(started == 1);

  options.worker_started = Refusing(1);
  engine::Lane lane(options, links, events);
  REQUIRE(lane.status().code() == tbcclSystemError);
  REQUIRE(lane.status().text().find("cannot start a worker thread") != std::string::npos);
  engine::ChannelOptions channel_options;
  channel_options.comm = 1;
  channel_options.peers = {0};
  engine::Channel* const channel = lane.add_channel(channel_options);
  std::vector<float> input(10, 1), output(10, 0);
  REQUIRE(lane.run(channel, large(0, 1, input, output, "direct")).code() == tbcclSystemError);
  lane.remove_channel(channel);
}

TEST_CASE("a request without progress is reported each second") {
  Group group({.size = 2});
  std::vector<float> in(10, 1), out(10, 0);
  engine::Request* request = nullptr;
  REQUIRE(group.lane(0).submit(group.channel(0), large(0, 2, in, out), &request).ok());
  REQUIRE(eventually([&] { return group.events(0).stalls().size() >= 2; }));
  const engine::CallRecord record = group.events(0).stalls().front();
  REQUIRE(record.number == 1);
  REQUIRE(record.text == "all-reduce of 10 elements");
  REQUIRE(record.waiting_for == std::vector<int>{1});
  REQUIRE(group.lane(0).state(group.channel(0)).ok());
  group.lane(0).release(request);  // detached; ends with the group
}

TEST_CASE("a cut trunk costs nothing but its bandwidth") {
  GroupOptions options;
  options.size = 2;
  options.trunks = 2;
  Group group(options);
  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    for (int i = 0; i < 20 && !stop; ++i) {
      // Spreads the cuts over the calls; wherever they fall, the data must be right.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::vector<int> open = group.network()->connections();
      if (open.size() >= 2) group.network()->kill(open[i % open.size()]);
    }
  });
  std::atomic<int> wrong{0};
  group.each([&](int rank) {
    for (int i = 0; i < 30; ++i) {
      std::vector<float> in(200'000, static_cast<float>(rank + i)), out(200'000, 0);
      const Status result = group.lane(rank).run(group.channel(rank), large(rank, 2, in, out));
      if (!result.ok() ||
          std::count(out.begin(), out.end(), static_cast<float>(2 * i + 1)) != 200'000) {
        ++wrong;
      }
    }
  });
  stop = true;
  cutter.join();
  REQUIRE(wrong == 0);
}

}  // namespace
}  // namespace tbccl::testing
