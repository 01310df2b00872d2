// How connections come about, and who is kept out.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "raw.h"

using namespace rig;
using namespace tbccl;

namespace {

std::string connect_error(Side& side, const Bytes& handle, size_t hello_bytes) {
  const std::string hello(hello_bytes, 'h');
  tbcclTrunk_t* trunk = nullptr;
  char error[512] = "";
  const auto code =
      Side::api().connect(side.context(), nullptr, handle.data(), handle.size(), hello.data(),
                          hello.size(), 1000, nullptr, &trunk, error, sizeof error);
  REQUIRE(code == TBCCL_FAILED);
  return error;
}

// Listens and never accepts, or accepts by hand.
struct PlainListener {
  std::string name;
  Descriptor socket;
  Bytes handle;
  explicit PlainListener(int backlog) {
    std::string error;
    name = shm::make_name(&error);
    socket = shm::make_listener(name);
    REQUIRE(socket.open());
    REQUIRE(listen(socket.get(), backlog) == 0);
    handle = shm::encode_handle(name);
  }
  ~PlainListener() { shm::unlink_name(name); }
};

}  // namespace

TEST_CASE("hello and reply of every length arrive as they are", "[shm]") {
  const LeakCheck leaks;
  const size_t bytes = GENERATE(as<size_t>{}, 0, 1, 39, 40, 41, TBCCL_HELLO_MAX_BYTES);
  Side a, b;
  b.answer = std::string(bytes, 'r');
  const std::string hello(bytes, 'h');
  Peer& peer = a.connect(b.listen(), hello);
  REQUIRE(pump({&a, &b}, [&] { return peer.up && b.peers.size() == 1 && b.peers[0]->up; }));
  REQUIRE(b.hellos == std::vector<std::string>{hello});
  REQUIRE(peer.reply == b.answer);
  REQUIRE(b.peers[0]->reply.empty());
}

TEST_CASE("a context reports its properties", "[shm]") {
  Side side;
  tbcclTransportProperties_t properties{};
  Side::api().properties(side.context(), &properties);
  REQUIRE(properties.shapes == (TBCCL_SHAPE_SLOTTED | TBCCL_SHAPE_PULLED));
  REQUIRE(properties.max_payload == kMost);
  REQUIRE(properties.best_payload <= properties.max_payload);
  REQUIRE((properties.reliable && properties.ordered && properties.has_descriptors &&
           properties.reconnects));
}

TEST_CASE("many contexts, every one with every other", "[shm]") {
  const LeakCheck leaks;
  constexpr size_t kSides = 5;
  std::vector<std::unique_ptr<Side>> sides;
  std::vector<Bytes> handles;
  for (size_t i = 0; i < kSides; ++i) {
    sides.push_back(std::make_unique<Side>());
    handles.push_back(sides.back()->listen());
  }
  for (size_t i = 0; i < kSides; ++i) {
    for (size_t k = i + 1; k < kSides; ++k) sides[i]->connect(handles[k]);
  }
  const auto all_up = [&] {
    return std::all_of(sides.begin(), sides.end(), [](const auto& side) {
      return side->peers.size() == kSides - 1 &&
             std::all_of(side->peers.begin(), side->peers.end(),
                         [](const auto& peer) { return peer->up; });
    });
  };
  REQUIRE(pump({sides[0].get(), sides[1].get(), sides[2].get(), sides[3].get(), sides[4].get()},
               all_up));
}

TEST_CASE("who is refused hears nothing but the end", "[shm]") {
  const LeakCheck leaks;
  Side a, b;
  b.refuse = "wrong session";
  const Bytes handle = b.listen();
  Peer& bad = a.connect(handle, "wrong session");
  Peer& good = a.connect(handle, "right session");
  REQUIRE(pump({&a, &b}, [&] { return bad.down && good.up && b.peers.size() == 1; }));
  REQUIRE(bad.gone == 1);
  REQUIRE_FALSE(bad.up);
  REQUIRE_FALSE(b.peers[0]->down);
}

TEST_CASE("the connecting side may refuse the reply", "[shm]") {
  const LeakCheck leaks;
  Side a, b;
  a.on_up = [](Peer&) { return 0; };
  Peer& peer = a.connect(b.listen());
  REQUIRE(pump({&a, &b}, [&] { return b.peers.size() == 1 && b.peers[0]->down; }));
  REQUIRE_FALSE(peer.down);
  REQUIRE(b.peers[0]->gone == 1);
}

TEST_CASE("strangers are dropped without a word, and real peers still come in", "[shm]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes handle = b.listen();
  const Descriptor garbage = stranger(handle);
  say(garbage, "GET / HTTP/1.1\r\n\r\n", 18);
  const Descriptor oversized = stranger(handle);
  Bytes huge = foreign_greeting(shm::kHelloMagic, "x");
  huge[offsetof(shm::GreetingPrefix, content)] = 0x01;
  huge[offsetof(shm::GreetingPrefix, content) + 1] = 0x04;
  say(oversized, huge.data(), huge.size());
  const Descriptor older = stranger(handle);
  Bytes version = foreign_greeting(shm::kHelloMagic, "x");
  ++version[offsetof(shm::GreetingPrefix, layout)];
  say(older, version.data(), version.size());
  const Descriptor brief = stranger(handle);
  say(brief, "T", 1);
  shutdown(brief.get(), SHUT_WR);
  stranger(handle).reset();
  RawPeer slow;
  slow.socket = stranger(handle);
  Peer& peer = a.connect(handle);
  REQUIRE(pump({&a, &b}, [&] { return peer.up; }));
  for (const Descriptor* socket : {&garbage, &oversized, &older, &brief}) {
    REQUIRE(pump({&b}, [&] { return ends(*socket); }));
  }
  // Byte by byte is right, too.
  const Bytes hello = foreign_greeting(shm::kHelloMagic, "slowly");
  for (size_t i = 0; i < hello.size(); ++i) {
    std::vector<int> regions;
    if (i == 0) regions = {slow.board->descriptor().get(), slow.trunk->descriptor().get()};
    REQUIRE(say(slow.socket, &hello[i], 1, regions));
    for (int k = 0; k < 100; ++k) b.poll();
  }
  REQUIRE(pump({&b}, [&] { return b.peers.size() == 2 && b.peers[1]->up; }));
  REQUIRE(b.hellos == std::vector<std::string>{"hello", "slowly"});
  slow.socket.reset();
  REQUIRE(pump({&b}, [&] { return b.peers[1]->down; }));
  REQUIRE(b.hellos.size() == 2);
}

TEST_CASE("many strangers push out the oldest of them, not real peers", "[shm]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes handle = b.listen();
  Peer& first = a.connect(handle, "first");
  REQUIRE(pump({&a, &b}, [&] { return first.up && b.peers.size() == 1 && b.peers[0]->up; }));
  const int before = open_descriptors();
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 150; ++i) {
    strangers.push_back(stranger(handle));
    const size_t known = b.watched.size();
    REQUIRE(pump({&b}, [&] { return b.watched.size() > known || i >= 64; }));
  }
  REQUIRE(pump({&b}, [&] { return ends(strangers[0]); }));
  Peer& late = a.connect(handle, "late");
  REQUIRE(pump({&a, &b}, [&] { return late.up; }));
  REQUIRE(open_descriptors() - before - 150 <= 70);
  REQUIRE_FALSE(first.down);
}

TEST_CASE("without descriptors the listener rests, and comes back", "[shm]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes handle = b.listen();
  Peer& peer = a.connect(handle);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;  // the numbers above are in use or refused
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const int listener = b.watched.rbegin()->first;
  const bool rested = pump({&b}, [&] { return b.watched.count(listener) == 0; });
  tbcclTrunk_t* trunk = nullptr;
  char error[512] = "";
  const auto code = Side::api().connect(a.context(), nullptr, handle.data(), handle.size(), "x", 1,
                                        1000, nullptr, &trunk, error, sizeof error);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(rested);
  REQUIRE(code == TBCCL_FAILED);
  REQUIRE(std::string(error).find("ulimit") != std::string::npos);
  REQUIRE(sleep_until(b, [&] { return b.watched.count(listener) == 1; }));
  REQUIRE(pump({&a, &b}, [&] { return peer.up; }));
}

TEST_CASE("where nobody listens, connecting ends by down()", "[shm]") {
  const LeakCheck leaks;
  Side a;
  Bytes handle;
  {
    Side gone;
    handle = gone.listen();
  }
  Peer& peer = a.connect(handle);
  REQUIRE_FALSE(peer.down);  // callbacks come from poll() alone
  REQUIRE(sleep_until(a, [&] { return peer.down; }));
  REQUIRE(peer.gone == 0);
  REQUIRE(peer.text.find("nobody listens") != std::string::npos);
}

TEST_CASE("who does not answer is given up in time, also by a lane that sleeps", "[shm]") {
  const LeakCheck leaks;
  Side a;
  SECTION("the kernel answers, the program does not") {
    const PlainListener deaf(8);
    Peer& peer = a.connect(deaf.handle, "hello", 200);
    REQUIRE(sleep_until(a, [&] { return peer.down; }));
    REQUIRE(peer.gone == 0);
    REQUIRE(peer.text.find("200 ms") != std::string::npos);
  }
  SECTION("the listener's queue is full") {
    const PlainListener full(0);
    std::vector<Peer*> tries;
    for (int i = 0; i < 8; ++i) tries.push_back(&a.connect(full.handle, "hello", 300));
    REQUIRE(sleep_until(a, [&] {
      return std::all_of(tries.begin(), tries.end(), [](const Peer* peer) { return peer->down; });
    }));
    for (const Peer* peer : tries) REQUIRE(peer->gone == 0);
  }
}

TEST_CASE("a listener whose queue was full is tried again", "[shm]") {
  const LeakCheck leaks;
  Side a;
  PlainListener full(0);
  std::vector<Descriptor> accepted;
  Peer& first = a.connect(full.handle);
  Peer& second = a.connect(full.handle);
  Peer& third = a.connect(full.handle);
  REQUIRE(pump({&a}, [&] {
    Descriptor socket = shm::accept_connection(full.socket.get());
    if (socket.open()) accepted.push_back(std::move(socket));
    return accepted.size() == 3;
  }));
  accepted.clear();
  REQUIRE(sleep_until(a, [&] { return first.down && second.down && third.down; }));
}

TEST_CASE("an answer that is no reply ends the attempt", "[shm]") {
  const LeakCheck leaks;
  Side a;
  const PlainListener other(8);
  Peer& peer = a.connect(other.handle);
  REQUIRE(pump({&a}, [&] {
    const Descriptor accepted = shm::accept_connection(other.socket.get());
    if (accepted.open()) say(accepted, "SSH-2.0", 7);
    return peer.down;
  }));
  REQUIRE_FALSE(peer.up);
}

TEST_CASE("a silent stranger is dropped after its deadline, also by a lane that sleeps", "[shm]") {
  const LeakCheck leaks;
  Side b;
  const Descriptor silent = stranger(b.listen());
  REQUIRE(sleep_until(b, [&] { return ends(silent); }));
  REQUIRE(b.hellos.empty());
}

TEST_CASE("wrong arguments are explained", "[shm]") {
  const LeakCheck leaks;
  Side side;
  REQUIRE(connect_error(side, {}, 0).find("handle") != std::string::npos);
  REQUIRE(connect_error(side, Bytes(20, 7), 0).find("handle") != std::string::npos);
  REQUIRE(connect_error(side, Bytes(TBCCL_HANDLE_MAX_BYTES, 1), 0).find("handle") !=
          std::string::npos);
  REQUIRE(connect_error(side, shm::encode_handle("x"), TBCCL_HELLO_MAX_BYTES + 1).find("hello") !=
          std::string::npos);
}

TEST_CASE("every descriptor is closed by exec", "[shm]") {
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
  REQUIRE(seen == 7);  // two timers, two boards, a listener, two ends
}

TEST_CASE("a hello that comes in two pieces, wherever it is cut", "[shm]") {
  const LeakCheck leaks;
  Side b;
  const Bytes handle = b.listen();
  const Bytes hello = foreign_greeting(shm::kHelloMagic, "pieces");
  for (size_t cut = 1; cut < hello.size(); ++cut) {
    RawPeer raw;
    raw.socket = stranger(handle);
    REQUIRE(say(raw.socket, hello.data(), cut,
                {raw.board->descriptor().get(), raw.trunk->descriptor().get()}));
    const size_t known = b.watched.size();
    REQUIRE(pump({&b}, [&] { return b.watched.size() > known; }));
    // Asleep, a side reads its sockets in every poll: the first piece has been read.
    Side::api().sleeping(b.context(), 1);
    b.poll();
    b.poll();
    Side::api().sleeping(b.context(), 0);
    REQUIRE(say(raw.socket, hello.data() + cut, hello.size() - cut));
    REQUIRE(pump({&b}, [&] { return b.peers.size() == cut && b.peers.back()->up; }));
    raw.socket.reset();
    REQUIRE(pump({&b}, [&] { return b.peers.back()->down; }));
  }
}
