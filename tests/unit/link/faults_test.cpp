// Trunks that fail, lose, duplicate and fall silent; peers that go away; messages that are
// withdrawn in the middle.
#include <algorithm>

#include "harness.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::link;
using namespace tbccl::link::testing;
using tbccl::testing::Fault;
using tbccl::testing::MemoryOptions;

namespace {

// Lets time pass until both messages are complete.
void wait_for(Pair& pair, const Arriving& in, const Outgoing& out, int milliseconds = 30000) {
  for (int i = 0; i < milliseconds && (in.done == 0 || out.released == 0); ++i) pair.pass(1);
}

TrunkCounters sum(const Links& links) {
  TrunkCounters all;
  for (const TrunkCounters& c : links.counters()) {
    all.retransmitted += c.retransmitted;
    all.duplicates += c.duplicates;
    all.failures += c.failures;
  }
  return all;
}

}  // namespace

TEST_CASE("a trunk is cut in the middle of a message: the other carries the rest") {
  MemoryOptions options;
  options.slotted = GENERATE(false, true);
  options.manual = true;
  Pair pair(options, 2);
  REQUIRE(pair.ok);
  const uint64_t total = 400000;
  const int cut_after = GENERATE(range(0, 14));
  const bool half = GENERATE(false, true);
  Arriving& in = pair.b().receive(0, key_of(1), total, total, 7, 8);
  Outgoing& out = pair.a().send(1, key_of(1), total, total);
  bool cut = false;
  for (int moves = 0, quiet = 0; quiet < 5000 && (in.done == 0 || out.released == 0);) {
    bool moved = false;
    for (int c : pair.network.connections()) {
      for (int direction = 0; direction < 2; ++direction) {
        if (!cut && moves >= cut_after) {
          if (half) pair.network.move(c, 0, true);
          pair.settle();
          pair.network.kill(c);
          cut = true;
          break;
        }
        const bool one = pair.network.move(c, direction);
        moves += one;
        moved = moved || one;
        pair.settle();
      }
    }
    if (!moved) {
      pair.pass(1);
      ++quiet;
    }
  }
  CHECK(in.done == 1);
  CHECK(intact(in, 1));
  CHECK(out.released == 1);
  CHECK(pair.problems() == "");
  pair.pass(100);
  CHECK(pair.a().links().all_connected());  // it was dialled again
  CHECK(pair.b().links().all_connected());
}

TEST_CASE("frames that are lost, doubled and overtaken on an unreliable trunk") {
  MemoryOptions options;
  options.slotted = GENERATE(true, false);
  options.reliable = false;
  options.ordered = GENERATE(true, false);
  options.best_payload = 4096;
  options.max_payload = 4096;
  const int trunks = GENERATE(1, 2);
  const uint32_t seed = GENERATE(1u, 2u, 3u);
  Pair pair(options, trunks);
  REQUIRE(pair.ok);
  uint32_t state = seed;
  const bool ordered = options.ordered;
  pair.network.set_fault([&state, ordered](int, int, const void*) {
    state = state * 1664525u + 1013904223u;
    switch ((state >> 16) % 20) {
      case 0:
      case 1:
        return Fault::kLose;
      case 2:
        return Fault::kDuplicate;
      case 3:
        return ordered ? Fault::kNone : Fault::kReorder;
      default:
        return Fault::kNone;
    }
  });
  std::vector<std::pair<Arriving*, Outgoing*>> all;
  for (uint32_t i = 0; i < 20; ++i) {
    const uint64_t total = i % 3 == 0 ? 200000 : i % 3 == 1 ? 100 : 20000;
    all.emplace_back(&pair.b().receive(0, key_of(i), total, total),
                     &pair.a().send(1, key_of(i), total, total));
    all.emplace_back(&pair.a().receive(1, key_of(i), total, total),
                     &pair.b().send(0, key_of(i), total, total));
    pair.settle();
  }
  for (auto& [in, out] : all) wait_for(pair, *in, *out);
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].first->done == 1);
    CHECK(intact(*all[i].first, static_cast<uint32_t>(i / 2)));
    CHECK(all[i].second->released == 1);
  }
  CHECK(pair.problems() == "");
  CHECK(sum(pair.a().links()).retransmitted > 0);
}

TEST_CASE("a trunk that falls silent while the other answers is given up") {
  MemoryOptions options;
  options.slotted = GENERATE(false, true);
  Pair pair(options, 2);
  REQUIRE(pair.ok);
  const auto connections = pair.network.connections();
  REQUIRE(connections.size() == 2);
  pair.network.stall(connections[static_cast<size_t>(GENERATE(0, 1))], true);
  const uint64_t total = 1000000;
  Arriving& in = pair.b().receive(0, key_of(1), total, total);
  Outgoing& out = pair.a().send(1, key_of(1), total, total);
  wait_for(pair, in, out);
  CHECK(in.done == 1);
  CHECK(intact(in, 1));
  CHECK(out.released == 1);
  CHECK(sum(pair.a().links()).failures + sum(pair.b().links()).failures > 0);
  CHECK(pair.problems() == "");
  pair.pass(200);
  CHECK(pair.a().links().all_connected());
}

TEST_CASE("a peer that is silent on all trunks is only slow") {
  Pair pair({}, 2);
  REQUIRE(pair.ok);
  for (int c : pair.network.connections()) pair.network.stall(c, true);
  Arriving& in = pair.b().receive(0, key_of(1), 500000, 500000);
  Outgoing& out = pair.a().send(1, key_of(1), 500000, 500000);
  pair.pass(20000);
  CHECK(sum(pair.a().links()).failures == 0);
  CHECK(pair.a().failures.empty());
  for (int c : pair.network.connections()) pair.network.stall(c, false);
  wait_for(pair, in, out);
  CHECK(intact(in, 1));
  CHECK(out.released == 1);
}

TEST_CASE("both trunks gone and nobody answers: the peer has failed, with a reason") {
  const bool gone = GENERATE(false, true);
  Pair pair({}, 2);
  REQUIRE(pair.ok);
  pair.network.refuse(true, gone);
  for (int c : pair.network.connections()) pair.network.kill(c, gone);
  pair.pass(gone ? 900 : 2500);
  CHECK(pair.a().failures.empty());
  pair.pass(gone ? 300 : 700);
  REQUIRE(pair.a().failures.count(1) == 1);
  CHECK(pair.a().failures[1].find("rank 1") != std::string::npos);
  CHECK(pair.a().failures[1].find("memory 0") != std::string::npos);
  REQUIRE(pair.b().failures.count(0) == 1);
}

TEST_CASE("both trunks gone for a moment: everything goes on") {
  Pair pair({}, 2);
  REQUIRE(pair.ok);
  Arriving& in = pair.b().receive(0, key_of(1), 3000000, 3000000);
  pair.network.refuse(true);
  for (int c : pair.network.connections()) pair.network.kill(c, true);
  Outgoing& out = pair.a().send(1, key_of(1), 3000000, 3000000);
  pair.pass(500);
  pair.network.refuse(false);
  wait_for(pair, in, out);
  CHECK(intact(in, 1));
  CHECK(out.released == 1);
  CHECK(pair.a().failures.empty());
}

TEST_CASE("a peer that said goodbye may go without being reported") {
  Pair pair({}, 1);
  REQUIRE(pair.ok);
  pair.a().links().peer_finished(1);
  pair.side[1].reset();
  for (int i = 0; i < 10000; ++i) {
    virtual_time() += 1'000'000;
    pair.a().links().progress();
  }
  CHECK(pair.a().failures.empty());
}

TEST_CASE("a peer that was never there is reported when the time to connect is over") {
  Options options;
  options.connect_timeout_ns = 2'000'000'000;
  tbccl::testing::MemoryNetwork network;
  options.size = 2;
  options.clock = virtual_now;
  Side side(0, options);
  std::vector<std::byte> handle;
  REQUIRE(side.links().listen(network.transport(), "here", &handle).ok());
  TrunkSpec spec;
  spec.peer = 1;
  spec.transport = network.transport();
  spec.handle.assign(4, std::byte{77});
  spec.name = "memory 0";
  REQUIRE(side.links().add_trunk(spec).ok());
  for (int i = 0; i < 3000; ++i) {
    virtual_time() += 1'000'000;
    side.links().progress();
    if (i == 1900) CHECK(side.failures.empty());
  }
  CHECK(side.failures.count(1) == 1);
}

TEST_CASE("a withdrawn message is not touched any more, at whatever point") {
  MemoryOptions options;
  options.slotted = GENERATE(false, true);
  options.manual = true;
  const int trunks = GENERATE(1, 2);
  const int after_moves = GENERATE(range(0, 12));
  const bool half = GENERATE(false, true);
  const bool at_sender = GENERATE(false, true);
  Pair pair(options, trunks);
  REQUIRE(pair.ok);
  const uint64_t total = 300000;
  Arriving& in = pair.b().receive(0, key_of(1), total, total, 7, 8);
  Outgoing& out = pair.a().send(1, key_of(1), total, total);
  const auto move_all = [&](int limit) {
    int moves = 0;
    for (int i = 0; i < 200 && moves < limit; ++i) {
      bool moved = false;
      for (int c : pair.network.connections()) {
        for (int direction = 0; direction < 2 && moves < limit; ++direction) {
          const bool one = pair.network.move(c, direction);
          moves += one;
          moved = moved || one;
          pair.settle();
        }
      }
      if (!moved) pair.pass(1);
    }
  };
  move_all(after_moves);
  if (half) {
    for (int c : pair.network.connections()) pair.network.move(c, 0, true);
    pair.settle();
  }
  std::vector<std::byte> before;
  std::vector<uint8_t> seen;
  if (at_sender && out.send != nullptr) {
    pair.a().links().withdraw(out.send);
    out.send = nullptr;
    std::vector<std::byte>().swap(out.data);  // the address sanitizer watches
  } else if (!at_sender && in.recv != nullptr) {
    pair.b().links().withdraw(in.recv);
    in.recv = nullptr;
    in.withdrawn = true;
    std::fill(in.data.begin(), in.data.end(), std::byte{0x5a});
    before = in.data;
  }
  move_all(1000);
  if (in.withdrawn) CHECK(in.data == before);
  for (uint64_t i = 0; i < total; ++i) {
    if (in.seen[i] == 0) continue;
    if (in.seen[i] > 1 || (!in.withdrawn && in.data[i] != pattern(1, i))) {
      FAIL("byte " << i << " was reported " << int(in.seen[i]) << " times");
    }
  }
  // Other traffic goes on.
  Arriving& next = pair.b().receive(0, key_of(2), total, total, 7, 8);
  Outgoing& next_out = pair.a().send(1, key_of(2), total, total);
  for (int i = 0; i < 50 && (next.done == 0 || next_out.released == 0); ++i) move_all(100);
  CHECK(intact(next, 2));
  CHECK(next_out.released == 1);
  CHECK(pair.problems() == "");
}

TEST_CASE("strangers, other jobs and wrong secrets are refused") {
  tbccl::testing::MemoryNetwork network;
  const int wrong = GENERATE(0, 1, 2);
  Options options;
  options.size = 2;
  options.clock = virtual_now;
  Options other = options;
  other.rank = 1;
  if (wrong == 0) other.session[15] = 1;
  if (wrong == 1) other.secret = "one";
  if (wrong == 2) {
    other.secret = "one";
    options.secret = "two";
  }
  Side a(0, options), b(1, other);
  std::vector<std::byte> handle_a, handle_b;
  REQUIRE(a.links().listen(network.transport(), "here", &handle_a).ok());
  REQUIRE(b.links().listen(network.transport(), "here", &handle_b).ok());
  TrunkSpec spec;
  spec.transport = network.transport();
  spec.name = "memory 0";
  spec.peer = 1;
  spec.handle = handle_b;
  REQUIRE(a.links().add_trunk(spec).ok());
  spec.peer = 0;
  spec.handle = handle_a;
  REQUIRE(b.links().add_trunk(spec).ok());
  for (int i = 0; i < 500; ++i) {
    virtual_time() += 1'000'000;
    a.links().progress();
    b.links().progress();
  }
  CHECK(!a.links().connected(1));
  CHECK(!b.links().connected(0));
}
