// No memory for what waiting needs: nobody is lost, nothing is left behind.
#include "group.h"
#include "support/allocations.h"
#include "unit/catch.h"

namespace tbccl::testing {

TEST_CASE("a thread that has no memory to sleep with waits all the same, and gives way later") {
  Group group({.size = 2});
  std::vector<float> in(1, 1), out(1, 0), other(1, 0);
  const auto call = [&](int rank, std::vector<float>& to) {
    return all_reduce(make_plan("direct", {}, rank, 2), in.data(), to.data(), 1);
  };
  engine::Request* request = nullptr;
  REQUIRE(group.lane(0).submit(group.channel(0), call(0, out), &request).ok());
  // One thread holds the lane's token all the time, so that the other one has to sleep without it.
  std::atomic<bool> stop{false}, holding{false};
  std::thread holder([&] {
    const std::thread::id self = std::this_thread::get_id();
    group.lane(0).drive(
        [&, self](link::Links&) {
          // Asked by another thread: that one has the token, for now.
          if (std::this_thread::get_id() == self) holding.store(true);
          return stop.load();
        },
        kNever);
  });
  REQUIRE(eventually([&] { return holding.load(); }));
  Status result(tbcclInternalError, "did not return");
  bool threw = false;
  std::thread waiter([&] {
    refuse_memory(true);
    try {
      result = group.lane(0).wait(request, kNever);
    } catch (...) {
      threw = true;
    }
    refuse_memory(false);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Status there = group.lane(1).run(group.channel(1), call(1, other));
  waiter.join();
  stop.store(true);
  holder.join();
  CHECK(there.ok());
  CHECK_FALSE(threw);
  CHECK(result.text() == "");
  CHECK(out[0] == 2);
  group.lane(0).release(request);
  // The worker does not give way to a thread that is not there any more.
  REQUIRE(group.lane(0).submit(group.channel(0), call(0, out), &request).ok());
  CHECK(group.lane(1).run(group.channel(1), call(1, other)).ok());
  Status done;
  CHECK(eventually([&] { return group.lane(0).test(request, &done); }));
  CHECK(done.ok());
  group.lane(0).release(request);
}

// Judged by the address sanitizer's search for leaks.
TEST_CASE("news of peers that come as a lane ends are not left behind") {
  for (int round = 0; round < 100; ++round) {
    Group group({.size = 3, .channels = 0});
    group.lane(0).peer_finished(1);
    group.lane(0).peer_gone(2, Status(tbcclRemoteError, "rank 2 is gone: said the test"));
    group.drop(0);
  }
  SUCCEED();
}

}  // namespace tbccl::testing
