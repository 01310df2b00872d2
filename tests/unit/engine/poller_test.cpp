// The lane's place to sleep. No case depends on how long anything takes: waits that must end by
// an event have no limit, waits that must run out have nothing that could end them.
#include "engine/poller.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "unit/catch.h"

using tbccl::kNever;
using tbccl::now_ns;
using tbccl::engine::Poller;

namespace {

struct SocketPair {
  int ends[2];
  SocketPair() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); }
  ~SocketPair() {
    close(ends[0]);
    close(ends[1]);
  }
};

Poller* signalled = nullptr;
void on_signal(int) { signalled->ring(); }

}  // namespace

TEST_CASE("an idle poller waits at least as long as asked", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  REQUIRE_FALSE(poller.wait(0));
  for (const uint64_t timeout : {1ull, 100'000ull, 1'000'000ull, 2'500'000ull}) {
    const uint64_t start = now_ns();
    REQUIRE_FALSE(poller.wait(timeout));
    REQUIRE(now_ns() - start >= timeout);
  }
}

TEST_CASE("a readable descriptor ends every wait until it is read", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  SocketPair pair;
  poller.watch(pair.ends[0], 1);
  REQUIRE_FALSE(poller.wait(0));
  REQUIRE(write(pair.ends[1], "xy", 2) == 2);
  REQUIRE(poller.wait(kNever));
  char bytes[2];
  REQUIRE(read(pair.ends[0], bytes, 1) == 1);
  REQUIRE(poller.wait(kNever));
  REQUIRE(read(pair.ends[0], bytes, 1) == 1);
  REQUIRE_FALSE(poller.wait(0));
}

TEST_CASE("interest can be changed, repeated and forgotten", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  SocketPair pair;
  const int fd = pair.ends[0];
  poller.watch(fd, 0);
  poller.watch(fd, 1);
  poller.watch(fd, 1);
  REQUIRE_FALSE(poller.wait(0));
  poller.watch(fd, 3);
  REQUIRE(poller.wait(kNever));
  poller.watch(fd, 2);
  REQUIRE(poller.wait(kNever));
  poller.watch(fd, 1);
  REQUIRE_FALSE(poller.wait(0));
  poller.watch(fd, 2);
  poller.watch(fd, 0);
  poller.watch(fd, 0);
  REQUIRE_FALSE(poller.wait(0));
}

TEST_CASE("a descriptor number that is used again is watched again", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  for (int round = 0; round < 3; ++round) {
    SocketPair pair;
    poller.watch(pair.ends[0], 2);
    REQUIRE(poller.wait(kNever));
    poller.watch(pair.ends[0], 0);
    REQUIRE_FALSE(poller.wait(0));
  }
}

TEST_CASE("many descriptors", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  std::vector<std::unique_ptr<SocketPair>> pairs;
  for (int i = 0; i < 100; ++i) {
    pairs.push_back(std::make_unique<SocketPair>());
    poller.watch(pairs.back()->ends[0], 2);
  }
  // The bell is found although more descriptors are ready than one wait reports.
  poller.ring();
  for (int i = 0; i < 20; ++i) REQUIRE(poller.wait(kNever));
  for (auto& pair : pairs) poller.watch(pair->ends[0], 0);
  REQUIRE_FALSE(poller.wait(0));
}

TEST_CASE("the bell ends the current wait or the next, once", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  for (int round = 0; round < 3; ++round) {
    poller.ring();
    poller.ring();
    REQUIRE(poller.wait(kNever));
    REQUIRE_FALSE(poller.wait(0));
  }
}

TEST_CASE("no ring from another thread is lost", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  constexpr uint64_t kRounds = 2000;
  std::atomic<uint64_t> answered{0};
  uint64_t published = 0;  // guarded by the bell alone: the thread sanitizer checks the claim
  std::thread other([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      published = i;
      poller.ring();
      while (answered.load(std::memory_order_acquire) < i) std::this_thread::yield();
    }
  });
  uint64_t seen = 0;
  for (uint64_t i = 1; i <= kRounds; ++i) {
    if (!poller.wait(kNever)) break;
    seen = published;
    answered.store(i, std::memory_order_release);
    if (seen != i) break;
  }
  answered.store(kRounds, std::memory_order_release);
  other.join();
  REQUIRE(seen == kRounds);
}

TEST_CASE("rings of several threads that race with waits wake the waiter for the last",
          "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  constexpr int kThreads = 3;
  constexpr int kRings = 3000;
  std::atomic<int> rings{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRings; ++i) {
        rings.fetch_add(1, std::memory_order_relaxed);
        poller.ring();
      }
    });
  }
  while (rings.load(std::memory_order_relaxed) != kThreads * kRings) poller.wait(kNever);
  for (auto& thread : threads) thread.join();
  REQUIRE(rings.load() == kThreads * kRings);
}

TEST_CASE("a signal handler may ring", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  signalled = &poller;
  struct sigaction action {};
  action.sa_handler = on_signal;
  struct sigaction before {};
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  REQUIRE(raise(SIGUSR1) == 0);
  REQUIRE(poller.wait(kNever));
  REQUIRE(sigaction(SIGUSR1, &before, nullptr) == 0);
}

TEST_CASE("what the kernel refuses to watch is looked at instead", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  SocketPair pair;
  const int closed = pair.ends[0] + 500;
  REQUIRE(fcntl(closed, F_GETFD) < 0);
  poller.watch(closed, 1);
  REQUIRE(poller.wait(kNever));
  poller.watch(closed, 0);
  REQUIRE_FALSE(poller.wait(0));
}

TEST_CASE("a child's copy is given up without effect on the parent", "[poller]") {
  Poller poller;
  REQUIRE(poller.open().ok());
  SocketPair pair;
  poller.watch(pair.ends[0], 1);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    poller.forget_in_child();
    poller.watch(pair.ends[0], 0);
    poller.ring();
    _exit(poller.wait(kNever) ? 1 : 0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  REQUIRE_FALSE(poller.wait(0));
  REQUIRE(write(pair.ends[1], "x", 1) == 1);
  REQUIRE(poller.wait(kNever));
}

TEST_CASE("a poller that was not opened neither watches nor sleeps", "[poller]") {
  Poller poller;
  poller.watch(0, 1);
  REQUIRE_FALSE(poller.wait(kNever));
}
