// Trunks of unequal rates, in virtual time: each carries in proportion, and together they are as
// fast as they can be.
#include <algorithm>
#include <vector>

#include "harness.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::link;
using namespace tbccl::link::testing;
using tbccl::testing::MemoryOptions;

namespace {

constexpr uint64_t kTick = 10'000;  // ns

// Two trunks that carry so many bytes a tick in each direction, frame after frame.
class Wires {
 public:
  // A wire that was idle carries `burst` bytes at once.
  Wires(Pair& pair, std::vector<double> rates, double burst = 0)
      : pair_(pair), rates_(std::move(rates)), burst_(burst) {
    for (auto& way : ready_) way.assign(rates_.size(), 0);
  }
  // Ticks until the message has arrived and is released.
  int carry(const Arriving& in, const Outgoing& out, int most) {
    for (int tick = 1; tick <= most; ++tick) {
      virtual_time() += kTick;
      pair_.settle();
      const std::vector<int> connections = pair_.network.connections();
      for (size_t c = 0; c < connections.size(); ++c) {
        for (int direction = 0; direction < 2; ++direction) pass(c, connections[c], direction);
      }
      pair_.settle();
      if (in.done > 0 && out.released > 0) return tick;
    }
    return most + 1;
  }
  // A tick in which nothing is sent.
  void idle() {
    for (auto& way : ready_) {
      for (size_t c = 0; c < way.size(); ++c)
        way[c] = std::min(way[c] + rates_[c], std::max(rates_[c], burst_));
    }
  }

 private:
  void pass(size_t c, int connection, int direction) {
    double& ready = ready_[direction][c];
    ready += rates_[c];
    while (pair_.network.movable(connection, direction)) {
      const double length = 64.0 + pair_.network.front_length(connection, direction);
      if (ready < length) return;
      ready -= length;
      pair_.network.move(connection, direction);
    }
    ready = std::min(ready, std::max(rates_[c], burst_));
  }

  Pair& pair_;
  std::vector<double> rates_;
  double burst_;
  std::vector<double> ready_[2];
};

uint64_t payload(const Links& links, uint32_t trunk) {
  for (const TrunkCounters& c : links.counters()) {
    if (c.id == trunk) return c.payload_sent;
  }
  return 0;
}

}  // namespace

TEST_CASE("unequal trunks carry in proportion to their rates, which nobody has told") {
  MemoryOptions options;
  options.manual = true;
  options.slotted = GENERATE(false, true);
  const double slow = GENERATE(1.0, 0.5, 0.25);  // of the fast one
  const double fast_bytes = 10'000;              // a tick: 1 byte per ns
  Pair pair(options, 2);
  REQUIRE(pair.ok);
  Wires wires(pair, {fast_bytes, fast_bytes * slow});
  const uint64_t total = 8'000'000;
  const double ideal = static_cast<double>(total) / (fast_bytes * (1 + slow));
  for (uint32_t message = 1; message <= 4; ++message) {
    const uint64_t before = payload(pair.a().links(), 1);
    Arriving& in = pair.b().receive(0, key_of(message), total, total, 7, 8);
    Outgoing& out = pair.a().send(1, key_of(message), total, total);
    const int ticks = wires.carry(in, out, static_cast<int>(20 * ideal));
    INFO("slow " << slow << ", message " << message << ": " << ticks << " ticks, ideal " << ideal);
    REQUIRE(in.done == 1);
    REQUIRE(intact(in, message));
    const double share =
        static_cast<double>(payload(pair.a().links(), 1) - before) / static_cast<double>(total);
    INFO("the slow trunk carried " << share);
    if (message == 1) continue;  // the rates are learned meanwhile
    REQUIRE(share > 0.75 * slow / (1 + slow));
    REQUIRE(share < 1.25 * slow / (1 + slow));
    REQUIRE(ticks < 1.15 * ideal);
  }
  REQUIRE(pair.problems() == "");
}

TEST_CASE("a small message does not wait behind all that a slow trunk has still to carry") {
  MemoryOptions options;
  options.manual = true;
  options.slotted = GENERATE(false, true);
  Pair pair(options, 1);
  REQUIRE(pair.ok);
  Wires wires(pair, {100});  // bytes a tick: 10 MB/s
  constexpr uint64_t kLong = 1'000'000, kShort = 100;
  Arriving& first = pair.b().receive(0, key_of(1), kLong, kLong);
  Outgoing& sent_first = pair.a().send(1, key_of(1), kLong, kLong);
  REQUIRE(wires.carry(first, sent_first, 20'000) <= 20'000);  // the rate is learned
  Arriving& second = pair.b().receive(0, key_of(2), kLong, kLong);
  Outgoing& sent_second = pair.a().send(1, key_of(2), kLong, kLong);
  REQUIRE(wires.carry(second, sent_second, 2'000) > 2'000);  // it is granted, and on its way
  Arriving& quick = pair.b().receive(0, key_of(3), kShort, kShort);
  Outgoing& sent_quick = pair.a().send(1, key_of(3), kShort, kShort);
  // What is held at most takes 4 ms; the long message 100 ms.
  CHECK(wires.carry(quick, sent_quick, 10'000) < 1'000);
  CHECK(second.done == 0);
  REQUIRE(wires.carry(second, sent_second, 20'000) <= 20'000);
  CHECK(intact(first, 1));
  CHECK(intact(second, 2));
  CHECK(intact(quick, 3));
  CHECK(pair.problems() == "");
}

TEST_CASE("a small message uses one trunk") {
  MemoryOptions options;
  options.manual = true;
  Pair pair(options, 2);
  REQUIRE(pair.ok);
  Wires wires(pair, {10'000, 10'000});
  for (uint32_t message = 1; message <= 50; ++message) {
    const uint64_t first = payload(pair.a().links(), 0), second = payload(pair.a().links(), 1);
    Arriving& in = pair.b().receive(0, key_of(message), 10'000, 10'000);
    Outgoing& out = pair.a().send(1, key_of(message), 10'000, 10'000);
    REQUIRE(wires.carry(in, out, 1000) <= 1000);
    REQUIRE(intact(in, message));
    const uint64_t on_first = payload(pair.a().links(), 0) - first;
    const uint64_t on_second = payload(pair.a().links(), 1) - second;
    REQUIRE(std::max(on_first, on_second) == 10'000);
    REQUIRE(std::min(on_first, on_second) == 0);
  }
}

TEST_CASE("what a shaper lets pass at once is not taken for the trunk's rate") {
  MemoryOptions options;
  options.manual = true;
  Pair pair(options, 1);
  REQUIRE(pair.ok);
  const double tick_bytes = 1'000;  // 0.1 byte per ns
  Wires wires(pair, {tick_bytes}, 300'000);
  for (uint32_t message = 1; message <= 8; ++message) {
    for (int idle = 0; idle < 400; ++idle) {  // the burst is full again
      virtual_time() += kTick;
      pair.settle();
      wires.idle();
    }
    Arriving& in = pair.b().receive(0, key_of(message), 2'000'000, 2'000'000);
    Outgoing& out = pair.a().send(1, key_of(message), 2'000'000, 2'000'000);
    REQUIRE(wires.carry(in, out, 3000) <= 3000);
    REQUIRE(intact(in, message));
  }
  const TrunkCounters counters = pair.a().links().counters().at(0);
  REQUIRE(counters.rate_bytes > 4'000'000);
  REQUIRE(counters.rate > 0.08);
  REQUIRE(counters.rate < 0.14);
}
