// How connections come about, and how they do not: greetings, refusals, strangers, deadlines.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "rig.h"
#include "tcp/address.h"
#include "tcp/greeting.h"

using namespace rig;

namespace {

// A listener of the kernel alone, of which nobody accepts.
struct PlainListener {
  int descriptor;
  Bytes handle;
  explicit PlainListener(int backlog) : handle(tbccl::tcp::kHandleBytes) {
    descriptor = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(descriptor >= 0);
    tbccl::tcp::Endpoint endpoint(asio::ip::address_v4::loopback(), 0);
    REQUIRE(bind(descriptor, endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0);
    REQUIRE(listen(descriptor, backlog) == 0);
    REQUIRE(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0);
    auto bytes = static_cast<socklen_t>(endpoint.capacity());
    REQUIRE(getsockname(descriptor, endpoint.data(), &bytes) == 0);
    tbccl::tcp::encode_handle(endpoint, handle.data());
  }
  ~PlainListener() {
    if (descriptor >= 0) close(descriptor);
  }
};

std::string listen_error(Side& side, const char* address) {
  uint8_t handle[TBCCL_HANDLE_MAX_BYTES];
  size_t bytes = 0;
  char error[256] = "";
  REQUIRE(Side::api().listen(side.context(), address, handle, &bytes, error, sizeof error) ==
          TBCCL_FAILED);
  return error;
}

std::string connect_error(Side& side, const char* local, const Bytes& handle, size_t hello_bytes) {
  const std::string hello(hello_bytes, 'h');
  tbcclTrunk_t* trunk = nullptr;
  char error[256] = "";
  REQUIRE(Side::api().connect(side.context(), local, handle.data(), handle.size(), hello.data(),
                              hello.size(), 1000, nullptr, &trunk, error,
                              sizeof error) == TBCCL_FAILED);
  return error;
}

Bytes handle_of(const char* address) {
  Bytes handle(tbccl::tcp::kHandleBytes);
  tbccl::tcp::encode_handle({asio::ip::make_address(address), 9}, handle.data());
  return handle;
}

void say(int socket, const void* data, size_t bytes) {
  REQUIRE(send(socket, data, bytes, MSG_NOSIGNAL) == static_cast<ptrdiff_t>(bytes));
}

}  // namespace

TEST_CASE("hello and reply reach the other side, also empty and at full length", "[tcp]") {
  const LeakCheck leaks;
  const size_t bytes = GENERATE(size_t{0}, size_t{5}, size_t{TBCCL_HELLO_MAX_BYTES});
  Side a, b;
  b.answer = std::string(bytes, 'r');
  const std::string hello(bytes, 'h');
  Peer& peer = a.connect(b.listen("127.0.0.1"), hello);
  REQUIRE(pump({&a, &b}, [&] { return peer.up && b.peers.size() == 1 && b.peers[0]->up; }));
  REQUIRE(b.hellos == std::vector<std::string>{hello});
  REQUIRE(peer.reply == b.answer);
  REQUIRE(b.peers[0]->reply.empty());
}

TEST_CASE("a context reports its properties", "[tcp]") {
  Side side;
  tbcclTransportProperties_t properties{};
  Side::api().properties(side.context(), &properties);
  REQUIRE(properties.shapes == TBCCL_SHAPE_PLACED);
  REQUIRE(properties.max_payload == 4u << 20);
  REQUIRE(properties.best_payload <= properties.max_payload);
  REQUIRE((properties.reliable && properties.ordered && properties.has_descriptors &&
           properties.reconnects));
}

TEST_CASE("who is refused hears nothing but the end", "[tcp]") {
  const LeakCheck leaks;
  Side a, b;
  b.refuse = "wrong session";
  const Bytes handle = b.listen("127.0.0.1");
  Peer& bad = a.connect(handle, "wrong session");
  Peer& good = a.connect(handle, "right session");
  REQUIRE(pump({&a, &b}, [&] { return bad.down && good.up && b.peers.size() == 1; }));
  REQUIRE(bad.gone == 1);
  REQUIRE_FALSE(bad.up);
  REQUIRE(bad.text.find("127.0.0.1:") != std::string::npos);
  REQUIRE_FALSE(b.peers[0]->down);
}

TEST_CASE("the connecting side may refuse the reply", "[tcp]") {
  const LeakCheck leaks;
  Side a, b;
  a.on_up = [](Peer&) { return 0; };
  Peer& peer = a.connect(b.listen("127.0.0.1"), "hello");
  REQUIRE(pump({&a, &b}, [&] { return b.peers.size() == 1 && b.peers[0]->down; }));
  REQUIRE_FALSE(peer.down);
  REQUIRE(b.peers[0]->gone == 1);
}

TEST_CASE("frames sent from inside up() follow the greeting", "[tcp]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes payload = payload_of(1, 30'000);
  a.on_up = [&](Peer& peer) { return a.send(peer, header_of(1), payload, 1) == TBCCL_OK; };
  b.on_up = [&](Peer& peer) { return b.send(peer, header_of(1), payload, 1) == TBCCL_OK; };
  Peer& peer = a.connect(b.listen("127.0.0.1"), "hello");
  REQUIRE(
      pump({&a, &b}, [&] { return peer.frames.size() == 1 && b.peers[0]->frames.size() == 1; }));
  REQUIRE(peer.frames[0].payload == payload);
  REQUIRE(b.peers[0]->frames[0].payload == payload);
}

TEST_CASE("strangers are dropped without a word, and real peers still come in", "[tcp]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes handle = b.listen("127.0.0.1");
  const int garbage = stranger(handle);
  say(garbage, "GET / HTTP/1.1\r\n\r\n", 18);
  const int oversized = stranger(handle);
  const uint8_t huge[] = {'B', 'T', 'H', 0, 0x01, 0x04, 'x'};
  say(oversized, huge, sizeof huge);
  const int brief = stranger(handle);
  say(brief, "B", 1);
  shutdown(brief, SHUT_WR);
  const int vanished = stranger(handle);
  close(vanished);
  const int slow = stranger(handle);
  Peer& peer = a.connect(handle, "hello");
  REQUIRE(pump({&a, &b}, [&] { return peer.up; }));
  for (const int socket : {garbage, oversized, brief}) {
    REQUIRE(pump({&b}, [&] { return ends(socket); }));
    close(socket);
  }
  // Byte by byte is right, too.
  const auto greeting = tbccl::tcp::make_greeting(tbccl::tcp::kHelloMagic, "slowly", 6);
  for (const uint8_t byte : greeting) {
    say(slow, &byte, 1);
    b.poll();
  }
  REQUIRE(pump({&b}, [&] { return b.peers.size() == 2 && b.peers[1]->up; }));
  REQUIRE(b.hellos == std::vector<std::string>{"hello", "slowly"});
  close(slow);
  REQUIRE(pump({&b}, [&] { return b.peers[1]->down; }));
  REQUIRE(b.hellos.size() == 2);
}

TEST_CASE("a silent stranger is dropped after its deadline, also by a lane that sleeps", "[tcp]") {
  const LeakCheck leaks;
  Side b;
  const int silent = stranger(b.listen("127.0.0.1"));
  REQUIRE(sleep_until(b, [&] { return ends(silent); }));
  REQUIRE(b.hellos.empty());
  close(silent);
}

TEST_CASE("many strangers push out the oldest of them, not real peers", "[tcp]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes handle = b.listen("127.0.0.1");
  Peer& first = a.connect(handle, "first");
  REQUIRE(pump({&a, &b}, [&] { return first.up && b.peers.size() == 1 && b.peers[0]->up; }));
  const int before = open_descriptors();
  std::vector<int> strangers;
  for (int i = 0; i < 150; ++i) {
    strangers.push_back(stranger(handle));
    b.poll();
  }
  REQUIRE(pump({&b}, [&] { return ends(strangers[0]); }));
  Peer& late = a.connect(handle, "late");
  REQUIRE(pump({&a, &b}, [&] { return late.up; }));
  REQUIRE(open_descriptors() - before - 150 <= 66);
  REQUIRE_FALSE(first.down);
  for (const int socket : strangers) close(socket);
}

TEST_CASE("without descriptors the listener rests, and comes back", "[tcp]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes handle = b.listen("127.0.0.1");
  Peer& peer = a.connect(handle, "hello");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;  // the numbers above are in use or refused
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const int listener = b.watched.rbegin()->first;
  const bool rested = pump({&b}, [&] { return b.watched.count(listener) == 0; });
  const Bytes other = handle;
  tbcclTrunk_t* trunk = nullptr;
  char error[256] = "";
  const auto code = Side::api().connect(a.context(), nullptr, other.data(), other.size(), "x", 1,
                                        1000, nullptr, &trunk, error, sizeof error);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(rested);
  REQUIRE(code == TBCCL_FAILED);
  REQUIRE(std::string(error).find("ulimit") != std::string::npos);
  REQUIRE(sleep_until(b, [&] { return b.watched.count(listener) == 1; }));
  REQUIRE(pump({&a, &b}, [&] { return peer.up; }));
}

TEST_CASE("where nobody listens, connecting ends by down()", "[tcp]") {
  const LeakCheck leaks;
  Side a;
  Bytes handle;
  {
    const PlainListener gone(1);
    handle = gone.handle;
  }
  Peer& peer = a.connect(handle, "hello");
  REQUIRE(sleep_until(a, [&] { return peer.down; }));
  REQUIRE(peer.gone == 0);
  REQUIRE(peer.text.find("refused") != std::string::npos);
}

TEST_CASE("a local address that is not there ends by down(), too", "[tcp]") {
  const LeakCheck leaks;
  Side a, b;
  Peer& peer = a.connect(b.listen("127.0.0.1"), "hello", 1000, "192.0.2.7");
  REQUIRE_FALSE(peer.down);  // callbacks come from poll() alone
  REQUIRE(sleep_until(a, [&] { return peer.down; }));
  REQUIRE(peer.gone == 0);
  REQUIRE(peer.text.find("192.0.2.7") != std::string::npos);
}

TEST_CASE("who does not answer is given up in time", "[tcp]") {
  const LeakCheck leaks;
  Side a;
  SECTION("the kernel answers, the program does not") {
    const PlainListener deaf(8);
    Peer& peer = a.connect(deaf.handle, "hello", 200);
    REQUIRE(sleep_until(a, [&] { return peer.down; }));
    REQUIRE(peer.gone == 0);
    REQUIRE(peer.text.find("200 ms") != std::string::npos);
  }
  SECTION("the kernel does not answer: its queue is full") {
    const PlainListener full(0);
    // Those that the kernel still takes time out in the greeting, the others in connecting.
    std::vector<Peer*> tries;
    for (int i = 0; i < 8; ++i) tries.push_back(&a.connect(full.handle, "hello", 300));
    REQUIRE(sleep_until(a, [&] {
      return std::all_of(tries.begin(), tries.end(), [](const Peer* peer) { return peer->down; });
    }));
    for (const Peer* peer : tries) REQUIRE(peer->gone == 0);
    REQUIRE(std::any_of(tries.begin(), tries.end(), [](const Peer* peer) {
      return peer->text.find("any address") != std::string::npos;  // never got one
    }));
  }
}

TEST_CASE("an answer that is no reply ends the attempt", "[tcp]") {
  const LeakCheck leaks;
  Side a;
  const PlainListener other(8);
  Peer& peer = a.connect(other.handle, "hello");
  REQUIRE(pump({&a}, [&] {
    const int accepted = accept(other.descriptor, nullptr, nullptr);
    if (accepted >= 0) {
      say(accepted, "SSH-2.0", 7);
      close(accepted);
    }
    return peer.down;
  }));
  REQUIRE_FALSE(peer.up);
}

TEST_CASE("wrong arguments are explained", "[tcp]") {
  const LeakCheck leaks;
  Side side;
  REQUIRE(listen_error(side, "nowhere").find("not a numeric") != std::string::npos);
  REQUIRE(listen_error(side, "0.0.0.0").find("one address") != std::string::npos);
  REQUIRE(listen_error(side, "::").find("one address") != std::string::npos);
  REQUIRE(listen_error(side, "192.0.2.7").find("this host") != std::string::npos);
  REQUIRE(connect_error(side, nullptr, {}, 0).find("handle") != std::string::npos);
  REQUIRE(connect_error(side, "::1", handle_of("127.0.0.1"), 0).find("IPv4") != std::string::npos);
  REQUIRE(connect_error(side, "x", handle_of("127.0.0.1"), 0).find("numeric") != std::string::npos);
  REQUIRE(connect_error(side, nullptr, handle_of("fe80::1"), 0).find("link-local") !=
          std::string::npos);
  REQUIRE(connect_error(side, nullptr, handle_of("127.0.0.1"), TBCCL_HELLO_MAX_BYTES + 1)
              .find("hello") != std::string::npos);
}

TEST_CASE("listeners keep to TBCCL_PORT_RANGE", "[tcp]") {
  const LeakCheck leaks;
  REQUIRE(setenv("TBCCL_PORT_RANGE", "20000-29999", 1) == 0);
  {
    Side side;
    uint16_t ports[2];
    for (auto& port : ports) {
      tbccl::tcp::Endpoint endpoint;
      std::string error;
      const Bytes handle = side.listen("127.0.0.1");
      REQUIRE(tbccl::tcp::decode_handle(handle.data(), handle.size(), &endpoint, &error));
      port = endpoint.port();
      REQUIRE((port >= 20000 && port <= 29999));
    }
    REQUIRE(ports[0] != ports[1]);
  }
  REQUIRE(setenv("TBCCL_PORT_RANGE", "nonsense", 1) == 0);
  tbcclTransportCallbacks_t callbacks{};
  tbcclTransportContext_t* context = nullptr;
  char error[256] = "";
  REQUIRE(Side::api().open(&callbacks, error, sizeof error, &context) == TBCCL_FAILED);
  REQUIRE(std::string(error).find("TBCCL_PORT_RANGE") != std::string::npos);
  REQUIRE(unsetenv("TBCCL_PORT_RANGE") == 0);
}
