// Sleeping and ringing: whoever sleeps on the watched descriptors is woken for everything it waits
// for. A lost wake-up shows as a sleep of a minute, which fails.
#include <atomic>
#include <thread>

#include "rig.h"

using namespace rig;

namespace {

// Frames go to and fro, each answered by the next; both ends sleep whenever there is nothing.
struct PingPong {
  Side& side;
  uint64_t rounds;
  Peer* peer = nullptr;
  uint64_t next = 0;
  bool right = true;

  uint32_t length_of(uint64_t number) const { return static_cast<uint32_t>(number * 37 % 600); }
  void listen() {
    side.on_deliver = [this](Peer& from, const void* header, const void* payload, uint32_t length) {
      right = right && length == length_of(next) && is_frame(next, header, payload, length);
      ++next;
      peer = &from;
      if (next < rounds) say();
    };
  }
  void say() {
    right = right && side.send(*peer, next, payload_of(next, length_of(next))) == TBCCL_OK;
    ++next;
  }
  // False: it slept and was not woken, or something was wrong.
  bool run() {
    return sleep_until(side, [this] { return next >= rounds || !right; }) && right;
  }
};

}  // namespace

TEST_CASE("no wake-up is lost: frames to and fro between two sleepers", "[shm]") {
  const LeakCheck leaks;
  constexpr uint64_t kRounds = 6000;
  Pair pair;
  PingPong there{pair.a, kRounds, pair.to_b};
  PingPong back{pair.b, kRounds};
  there.listen();
  back.listen();
  bool other = false;
  there.say();
  std::thread thread([&] { other = back.run(); });
  const bool one = there.run();
  thread.join();
  REQUIRE(one);
  REQUIRE(other);
}

TEST_CASE("no wake-up is lost: a sender that sleeps while there is no room, and for its tokens",
          "[shm]") {
  const LeakCheck leaks;
  constexpr uint64_t kFrames = 3000;
  // The last kind is referred to, and its tokens come only when it has been read.
  const uint32_t length = GENERATE(as<uint32_t>{}, 8, 20'000, 40'000);
  const uint64_t frames = length > 10'000 ? kFrames / 10 : kFrames;
  Pair pair;
  const Bytes payload = payload_of(9, length);
  std::atomic<bool> received{false};
  uint64_t delivered = 0;
  pair.b.on_deliver = [&](Peer&, const void*, const void*, uint32_t) { ++delivered; };
  std::thread thread([&] { received = sleep_until(pair.b, [&] { return delivered == frames; }); });
  uint64_t next = 0;
  const auto push = [&] {
    while (next < frames && pair.a.send(*pair.to_b, next, payload) == TBCCL_OK) ++next;
  };
  pair.a.on_writable = [&](Peer&) { push(); };
  push();
  const bool sent =
      sleep_until(pair.a, [&] { return next == frames && pair.to_b->sent.size() == frames; });
  thread.join();
  REQUIRE(sent);
  REQUIRE(received);
}

TEST_CASE("no wake-up is lost between two processes", "[shm]") {
  const LeakCheck leaks;
  constexpr uint64_t kRounds = 4000;
  Child child([](Child& parent) {
    Side side;
    PingPong back{side, kRounds};
    back.listen();
    if (!parent.say(side.listen())) return 1;
    if (!back.run()) return 2;
    return sleep_until(side, [&] { return side.peers[0]->down; }) ? 0 : 3;
  });
  {
    Side side;
    Peer& peer = side.connect(child.hear_handle());
    REQUIRE(sleep_until(side, [&] { return peer.up; }));
    PingPong there{side, kRounds, &peer};
    there.listen();
    there.say();
    REQUIRE(there.run());
    REQUIRE(sleep_until(side, [&] { return there.next >= kRounds; }));
  }
  REQUIRE(child.wait() == 0);
}

namespace {

std::atomic<uint64_t>& word_of(void* board) { return *static_cast<std::atomic<uint64_t>*>(board); }
const std::atomic<uint64_t>& word_of(const void* board) {
  return *static_cast<const std::atomic<uint64_t>*>(board);
}

}  // namespace

TEST_CASE("boards: zero at first, each end reads the other's, and rings it awake", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  const tbcclBoard_t at_a = pair.a.board(*pair.to_b);
  const tbcclBoard_t at_b = pair.b.board(*pair.to_a);
  REQUIRE(at_a.bytes >= 1u << 20);
  REQUIRE(reinterpret_cast<uintptr_t>(at_a.mine) % 4096 == 0);
  REQUIRE(reinterpret_cast<uintptr_t>(at_a.theirs) % 4096 == 0);
  const auto* theirs = static_cast<const uint8_t*>(at_b.theirs);
  for (size_t i = 0; i < at_b.bytes; i += 64) {
    if (theirs[i] != 0) FAIL("a byte that nobody wrote");
  }
  constexpr uint64_t kRounds = 4000;
  bool other = false;
  const auto run = [](Side& side, Peer& peer, const tbcclBoard_t& board, uint64_t first) {
    uint64_t next = first;
    return sleep_until(side, [&] {
      while (next <= kRounds && word_of(board.theirs).load(std::memory_order_acquire) == next - 1) {
        word_of(board.mine).store(next, std::memory_order_release);
        Side::api().ring(side.context(), peer.trunk);
        next += 2;
      }
      return next > kRounds;
    });
  };
  std::thread thread([&] { other = run(pair.b, *pair.to_a, at_b, 2); });
  const bool one = run(pair.a, *pair.to_b, at_a, 1);
  thread.join();
  REQUIRE(one);
  REQUIRE(other);
}

TEST_CASE("awake ends are never rung, sleeping ones once", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  const tbcclBoard_t board = pair.a.board(*pair.to_b);
  const auto* asleep = reinterpret_cast<const std::atomic<uint32_t>*>(board.asleep);
  REQUIRE(asleep->load() == 0);
  Side::api().sleeping(pair.b.context(), 1);
  REQUIRE(asleep->load() != 0);
  for (uint64_t i = 0; i < 40; ++i) REQUIRE(pair.a.send(*pair.to_b, i, nullptr, 0) == TBCCL_OK);
  Side::api().sleeping(pair.b.context(), 0);
  REQUIRE(asleep->load() == 0);
  // The ring, then the frames.
  REQUIRE(pair.b.poll() == 1 + 32);
  REQUIRE(pair.b.poll() == 8);
  REQUIRE(pair.b.poll() == 0);
  REQUIRE(pair.to_a->frames.size() == 40);
}
