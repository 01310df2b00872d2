// How trunks end, and what is never lost, left behind or touched afterwards.
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>

#include "base/shared_memory.h"
#include "rig.h"

using namespace rig;

TEST_CASE("all that was published before closing is delivered, then down() says gone", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes payload = payload_of(3, 7000);
  for (uint64_t i = 0; i < 60; ++i) REQUIRE(pair.a.send(*pair.to_b, i, payload) == TBCCL_OK);
  const bool context = GENERATE(false, true);
  if (context) {
    pair.a.close();
  } else {
    pair.a.close_trunk(*pair.to_b);
  }
  size_t at_the_end = 0;
  pair.b.on_down = [&](Peer& peer) { at_the_end = peer.frames.size(); };
  REQUIRE(sleep_until(pair.b, [&] { return pair.to_a->down; }));
  REQUIRE(at_the_end == 60);
  REQUIRE(pair.to_a->gone == 1);
  REQUIRE_FALSE(pair.to_b->down);
  REQUIRE(pair.to_a->frames[59].payload == payload);
}

TEST_CASE("a peer process that is killed: what it published is delivered, nothing is left",
          "[shm]") {
  constexpr uint64_t kPlaces = 65;  // one more than frames can be on their way
  std::mt19937 random(7);
  for (int round = 0; round < 25; ++round) {
    const LeakCheck leaks;
    Child child([](Child& parent) {
      Side side;
      void* memory = nullptr;
      if (!tbccl::allocate_shared(kPlaces * 40'000, &memory).ok()) return 1;
      auto* const bytes = static_cast<uint8_t*>(memory);
      Peer& peer = side.connect(parent.hear_handle());
      if (!pump({&side}, [&] { return peer.up; })) return 2;
      // Small ones, ones in the ring, and references, until it is killed. What was published is
      // counted where the parent hears of it.
      for (uint64_t number = 0;; ++number) {
        const uint32_t length = number % 3 == 0 ? 100 : number % 3 == 1 ? 5000 : 40'000;
        const Bytes payload = payload_of(number, length);
        uint8_t* const at = bytes + number % kPlaces * 40'000;
        const void* from = payload.data();
        if (length == 40'000) {
          std::memcpy(at, payload.data(), length);
          from = at;
        }
        while (side.send(peer, number, from, length) == TBCCL_AGAIN) side.poll();
        if (!parent.say(&number, sizeof number)) return 3;
        if (peer.down) return 4;
      }
    });
    uint64_t delivered = 0, told = 0;
    bool right = true;
    {
      Side side;
      side.on_deliver = [&](Peer&, const void* header, const void* payload, uint32_t length) {
        right = right && is_frame(delivered, header, payload, length);
        ++delivered;
      };
      REQUIRE(child.say(side.listen()));
      REQUIRE(pump({&side}, [&] { return side.peers.size() == 1 && side.peers[0]->up; }));
      const uint64_t enough = random() % 200;
      bool alive = true;
      while (alive && told < enough) {
        uint64_t number = 0;
        alive = child.hear(&number, sizeof number);
        told = number + 1;
        side.poll();
      }
      REQUIRE(alive);
      child.kill();
      uint64_t number = 0;
      while (child.hear(&number, sizeof number)) told = number + 1;
      const bool asleep = random() % 2 == 0;
      Peer& peer = *side.peers[0];
      if (asleep) {
        REQUIRE(sleep_until(side, [&] { return peer.down; }));
      } else {
        REQUIRE(pump({&side}, [&] { return peer.down; }));
      }
      REQUIRE(peer.gone == 1);
      REQUIRE(right);
      REQUIRE(delivered >= told);
    }
  }
}

TEST_CASE("a peer that stays away while the other is killed in the middle of sending to it",
          "[shm]") {
  const LeakCheck leaks;
  Child child([](Child& parent) {
    Side side;
    if (!parent.say(side.listen())) return 1;
    pump({&side}, [&] { return false; });
    return 2;
  });
  Side side;
  Peer& peer = side.connect(child.hear_handle());
  REQUIRE(pump({&side}, [&] { return peer.up; }));
  const Bytes payload = payload_of(1, 30'000);
  bool failed = false;
  for (uint64_t i = 0; i < 100'000 && !failed; ++i) {
    if (i == 1000) child.kill();
    const auto code = side.send(peer, i, payload);
    failed = code == TBCCL_FAILED;
    side.poll();
    if (peer.down) break;
  }
  REQUIRE(pump({&side}, [&] { return peer.down; }));
  REQUIRE(peer.gone == 1);
}

TEST_CASE("callbacks may close their trunk", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  bool closed = false;
  const Bytes payload = payload_of(1, 20'000);
  const Bytes large = payload_of(1, 100'000);
  const auto close = [&](Peer& peer) {
    if (!closed) pair.a.close_trunk(peer);
    closed = true;
  };
  SECTION("deliver") {
    pair.a.on_deliver = [&](Peer& peer, const void*, const void*, uint32_t) { close(peer); };
    for (uint64_t i = 0; i < 5; ++i) {
      REQUIRE(pair.b.send(*pair.to_a, i, payload) == TBCCL_OK);
    }
  }
  SECTION("sent, inside send()") {
    pair.a.on_sent = [&](Peer& peer, uint64_t) { close(peer); };
    REQUIRE(pair.a.send(*pair.to_b, 1, payload) == TBCCL_OK);
  }
  SECTION("sent, inside poll()") {
    pair.a.on_sent = [&](Peer& peer, uint64_t) { close(peer); };
    for (uint64_t i = 0; i < 5; ++i) {
      REQUIRE(pair.a.send(*pair.to_b, i, large) == TBCCL_OK);
    }
  }
  SECTION("writable") {
    while (pair.a.send(*pair.to_b, 1, payload) == TBCCL_OK) {
    }
    pair.a.on_writable = close;
  }
  SECTION("up") {
    pair.a.close_trunk(*pair.to_b);
    pair.a.on_up = [&](Peer& peer) {
      close(peer);
      return 1;
    };
    pair.a.connect(pair.b.listen(), "again");
    REQUIRE(pair.pump_until([&] { return pair.b.peers.size() == 2 && pair.b.peers[1]->down; }));
  }
  REQUIRE(pair.pump_until([&] { return closed && pair.to_a->down; }));
  REQUIRE_FALSE(pair.to_b->down);
}

TEST_CASE("a frame longer than the maximum ends the trunk", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes payload(kMost + 1);
  REQUIRE(pair.a.send(*pair.to_b, 1, payload) == TBCCL_FAILED);
  REQUIRE(pair.to_b->down);
  REQUIRE(pair.to_b->text.find("max_payload") != std::string::npos);
}

TEST_CASE("a trunk can be made anew after it went down", "[shm]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes handle = b.listen();
  for (size_t i = 0; i < 20; ++i) {
    Peer& peer = a.connect(handle);
    REQUIRE(pump({&a, &b}, [&] { return peer.up && b.peers.size() == i + 1 && b.peers[i]->up; }));
    REQUIRE(a.send(peer, i, payload_of(i, 1000)) == TBCCL_OK);
    if (i % 2 == 0) {
      a.close_trunk(peer);
      REQUIRE(pump({&b}, [&] { return b.peers[i]->down; }));
    } else {
      b.close_trunk(*b.peers[i]);
      REQUIRE(pump({&a}, [&] { return peer.down; }));
    }
  }
}

TEST_CASE("a forked child that closes its copy does not disturb the parent", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes large = payload_of(1, 100'000);
  REQUIRE(pair.a.send(*pair.to_b, 1, large) == TBCCL_OK);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int before = open_descriptors();
    const auto watched = pair.a.watched;
    Side::api().close(pair.a.context());
    _exit(open_descriptors() == before && pair.a.watched == watched ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  REQUIRE(pair.a.send(*pair.to_b, 2, payload_of(2, 1000)) == TBCCL_OK);
  REQUIRE(pair.pump_until([&] { return pair.to_a->frames.size() == 2; }));
  REQUIRE(pair.to_a->frames[0].payload == large);
  REQUIRE_FALSE(pair.to_b->down);
}
