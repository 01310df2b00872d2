// How trunks end, and what is never touched afterwards.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "rig.h"
#include "tcp/frame.h"
#include "tcp/greeting.h"

#ifdef __linux__
#include <linux/filter.h>
#endif

using namespace rig;

namespace {

constexpr uint32_t kLong = 4u << 20;

// A trunk whose side b is in the middle of receiving a long frame into `destination`.
struct MidFrame : Pair {
  Bytes payload = payload_of(7, kLong);
  Bytes destination = Bytes(kLong, 0xee);
  uint32_t received = 0;
  MidFrame() {
    b.on_place = [this](Peer&, const void*, uint32_t) -> void* { return destination.data(); };
    b.on_progress = [this](Peer&, const void*, uint32_t bytes, uint32_t) { received = bytes; };
    REQUIRE(a.send(*to_b, header_of(7), payload, 7) == TBCCL_OK);
    // Side a is not polled, so the frame cannot get further than its first write.
    REQUIRE(pump({&b}, [&] { return received > 0; }));
    REQUIRE(received < kLong);
  }
  void poison() { std::fill(destination.begin(), destination.end(), 0xdd); }
  void check_poison() const {
    REQUIRE(std::all_of(destination.begin(), destination.end(),
                        [](uint8_t byte) { return byte == 0xdd; }));
  }
};

}  // namespace

TEST_CASE("close_trunk in mid-frame: the destination is not touched any more", "[tcp]") {
  const LeakCheck leaks;
  MidFrame pair;
  pair.b.close_trunk(*pair.to_a, false);
  pair.poison();
  REQUIRE(pair.pump_until([&] { return pair.to_b->down; }));
  pair.check_poison();
  REQUIRE(pair.to_b->gone == 1);
  REQUIRE_FALSE(pair.to_a->down);
  REQUIRE(pair.to_b->sent.empty());
}

TEST_CASE("close_trunk of the sender in mid-frame: the payload is not read any more", "[tcp]") {
  const LeakCheck leaks;
  MidFrame pair;
  pair.a.close_trunk(*pair.to_b, false);
  Bytes().swap(pair.payload);  // reading it would be a use after free
  REQUIRE(pair.pump_until([&] { return pair.to_a->down; }));
  REQUIRE(pair.to_a->gone == 1);
  REQUIRE_FALSE(pair.to_b->down);
  REQUIRE(pair.to_b->sent.empty());
  pair.poison();
  for (int i = 0; i < 100; ++i) pair.b.poll();
  pair.check_poison();
}

TEST_CASE("a peer that dies in mid-frame", "[tcp]") {
  const LeakCheck leaks;
  MidFrame pair;
  SECTION("the sender") {
    pair.a.close();
    REQUIRE(pump({&pair.b}, [&] { return pair.to_a->down; }));
    REQUIRE(pair.to_a->gone == 1);
    REQUIRE(pair.to_a->text.find("127.0.0.1") != std::string::npos);
    REQUIRE(pair.received < kLong);
    pair.poison();
    for (int i = 0; i < 100; ++i) pair.b.poll();
    pair.check_poison();
  }
  SECTION("the receiver") {
    pair.b.close();
    // Before the news of it has come (an end, or a reset if b had not read all that was there), the
    // system may still take the rest of the frame.
    bool told = false;
    for (int i = 0; i < 1000 && !told; ++i) {
      for (const auto& [descriptor, events] : pair.a.watched) {
#ifdef POLLRDHUP
        pollfd entry{descriptor, POLLRDHUP, 0};
#else
        pollfd entry{descriptor, POLLIN, 0};
#endif
        told |= poll(&entry, 1, 20) > 0;
      }
    }
    REQUIRE(told);
    REQUIRE(pump({&pair.a}, [&] { return pair.to_b->down; }));
    REQUIRE(pair.to_b->gone == 1);
    REQUIRE(pair.to_b->sent.empty());
  }
}

TEST_CASE("what a peer sent before it closed is received, also by one that is sending", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes payload = payload_of(1, 1000);  // small: all of it is on its way when send() returns
  for (uint64_t i = 0; i < 3; ++i) {
    REQUIRE(pair.b.send(*pair.to_a, header_of(i), payload, i) == TBCCL_OK);
  }
  pair.b.close_trunk(*pair.to_a, true);
  // Writes into the closed connection until the kernel complains.
  for (int i = 0; i < 50; ++i) pair.a.send(*pair.to_b, header_of(9), {}, 9);
  REQUIRE(pair.pump_until([&] { return pair.to_b->down; }));
  REQUIRE(pair.to_b->frames.size() == 3);
  REQUIRE(pair.to_b->frames[2].payload == payload);
  REQUIRE(pair.to_b->gone == 1);
}

TEST_CASE("closing with flush writes what was accepted, as far as there is room", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes payload = payload_of(1, 300);
  uint64_t taken = 0;
  while (taken < 100 && pair.a.send(*pair.to_b, header_of(taken), payload, taken) == TBCCL_OK) {
    ++taken;
  }
  REQUIRE(pair.b.send(*pair.to_a, header_of(0), payload, 0) == TBCCL_OK);  // never read by a
  pair.a.close_trunk(*pair.to_b, true);
  REQUIRE(pair.pump_until([&] { return pair.to_a->down; }));
  REQUIRE(pair.to_a->frames.size() == taken);
}

TEST_CASE("callbacks may close their trunk", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes payload = payload_of(1, GENERATE(10u, 200'000u));
  bool closed = false;
  bool called_after = false;
  const auto close = [&](Peer& peer) {
    called_after = called_after || closed;
    if (!closed) pair.b.close_trunk(peer, GENERATE(false, true));
    closed = true;
  };
  SECTION("place") {
    pair.b.on_place = [&](Peer& peer, const void*, uint32_t) -> void* {
      close(peer);
      return nullptr;
    };
    pair.b.on_progress = [&](Peer&, const void*, uint32_t, uint32_t) { called_after = true; };
  }
  SECTION("progress") {
    pair.b.on_progress = [&](Peer& peer, const void*, uint32_t, uint32_t) { close(peer); };
  }
  for (uint64_t i = 0; i < 5; ++i) {
    REQUIRE(pair.a.send(*pair.to_b, header_of(i), payload, i) == TBCCL_OK);
  }
  REQUIRE(pair.pump_until([&] { return pair.to_b->down; }));
  REQUIRE(closed);
  REQUIRE_FALSE(called_after);
  REQUIRE_FALSE(pair.to_a->down);
}

TEST_CASE("sent(), writable() and up() may close their trunk", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  bool closed = false;
  const auto close = [&](Peer& peer) {
    REQUIRE_FALSE(closed);
    closed = true;
    pair.a.close_trunk(peer, false);
  };
  const Bytes payload = payload_of(1, 1u << 20);
  SECTION("sent, at once") {
    pair.a.on_sent = [&](Peer& peer, uint64_t) { close(peer); };
    REQUIRE(pair.a.send(*pair.to_b, header_of(1), {}, 1) == TBCCL_OK);
  }
  SECTION("sent, later") {
    while (pair.a.send(*pair.to_b, header_of(1), payload, 1) == TBCCL_OK) {
    }
    pair.a.on_sent = [&](Peer& peer, uint64_t) { close(peer); };
  }
  SECTION("writable") {
    while (pair.a.send(*pair.to_b, header_of(1), payload, 1) == TBCCL_OK) {
    }
    pair.a.on_writable = close;
  }
  SECTION("up") {
    pair.a.close_trunk(*pair.to_b, false);
    pair.a.on_up = [&](Peer& peer) {
      close(peer);
      return 1;
    };
    pair.a.connect(pair.b.listen("127.0.0.1"), "again");
    REQUIRE(pair.pump_until([&] { return pair.b.peers.size() == 2 && pair.b.peers[1]->down; }));
  }
  REQUIRE(pair.pump_until([&] { return closed && pair.to_a->down; }));
  REQUIRE_FALSE(pair.to_b->down);
}

TEST_CASE("a connection that is reset", "[tcp]") {
  const LeakCheck leaks;
  Side b;
  const int plain = stranger(b.listen("127.0.0.1"));
  const auto greeting = tbccl::tcp::make_greeting(tbccl::tcp::kHelloMagic, "hi", 2);
  REQUIRE(send(plain, greeting.data(), greeting.size(), 0) ==
          static_cast<ptrdiff_t>(greeting.size()));
  REQUIRE(pump({&b}, [&] { return b.peers.size() == 1 && b.peers[0]->up; }));
  const linger hard{1, 0};
  REQUIRE(setsockopt(plain, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
  close(plain);
  REQUIRE(sleep_until(b, [&] { return b.peers[0]->down; }));
  REQUIRE(b.peers[0]->gone == 1);
}

TEST_CASE("a frame longer than the maximum ends the trunk", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  SECTION("the sender's mistake") {
    const Bytes payload(kLong + 1);
    REQUIRE(pair.a.send(*pair.to_b, header_of(1), payload, 1) == TBCCL_FAILED);
    REQUIRE(pair.to_b->down);
    REQUIRE(pair.to_b->text.find("max_payload") != std::string::npos);
  }
}

#ifdef __linux__

TEST_CASE("a path that drops everything silently is noticed, also by a lane that sleeps", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  // The receiving socket throws every segment away before TCP sees it, as a cut cable does.
  sock_filter drop[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  const sock_fprog program{1, drop};
  int filtered = 0;
  for (const auto& [descriptor, events] : pair.b.watched) {
    filtered += setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
  }
  REQUIRE(filtered > 0);
  const Bytes payload = payload_of(1, 1000);
  const uint64_t start = tbccl::now_ns();
  REQUIRE(pair.a.send(*pair.to_b, header_of(1), payload, 1) == TBCCL_OK);
  REQUIRE(sleep_until(pair.a, [&] { return pair.to_b->down; }));
  REQUIRE(tbccl::now_ns() - start > 300'000'000);  // not before retransmissions were tried
  REQUIRE(pair.to_b->gone == 0);
  REQUIRE(pair.to_b->text.find("path is down") != std::string::npos);
  WARN("noticed after " << (tbccl::now_ns() - start) / 1'000'000 << " ms");
}

TEST_CASE("a peer that has stopped reading is left alone", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes payload = payload_of(1, 1u << 20);
  int taken = 0;
  const uint64_t start = tbccl::now_ns();
  // Longer than silence is borne, and than probes of a closed window back off.
  while (tbccl::now_ns() - start < 2'500'000'000) {
    if (pair.a.send(*pair.to_b, header_of(1), payload, 1) == TBCCL_OK) ++taken;
    if (pair.a.poll() == 0) std::this_thread::yield();
    REQUIRE_FALSE(pair.to_b->down);
  }
  REQUIRE(pair.pump_until([&] { return pair.to_a->frames.size() == static_cast<size_t>(taken); }));
}

TEST_CASE("every descriptor is closed by exec", "[tcp]") {
  const std::string directory = "/proc/self/fd/";
  std::set<int> before;
  for (int i = 0; i < 1024; ++i) {
    if (fcntl(i, F_GETFD) >= 0) before.insert(i);
  }
  Pair pair;
  int seen = 0;
  for (int i = 0; i < 1024; ++i) {
    const int flags = fcntl(i, F_GETFD);
    if (flags < 0 || before.count(i) > 0) continue;
    ++seen;
    REQUIRE((flags & FD_CLOEXEC) != 0);
  }
  REQUIRE(seen >= 5);  // two timers, a listener, two ends
}

#endif

TEST_CASE("a forked child that closes its copy does not disturb the parent", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
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
  const Bytes payload = payload_of(1, 100'000);
  REQUIRE(pair.a.send(*pair.to_b, header_of(1), payload, 1) == TBCCL_OK);
  REQUIRE(pair.pump_until([&] { return pair.to_a->frames.size() == 1; }));
  REQUIRE(pair.to_a->frames[0].payload == payload);
}
