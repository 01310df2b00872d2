// How a connection ends: with everything said before, and in bounded time.
#include "bootstrap/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/write.hpp>
#include <thread>

#include "bootstrap/address.h"
#include "unit/catch.h"

using namespace tbccl::bootstrap;

namespace {

// A connection and the bare socket at its other end.
struct Pair {
  Pair() {
    Acceptor acceptor(io, TcpEndpoint(asio::ip::address_v4::loopback(), 0));
    other.connect(acceptor.local_endpoint());
    connection = std::make_shared<Connection>(acceptor.accept(), 4096);
  }
  // Everything until the end of the stream.
  std::string read_all() {
    std::string all;
    char part[4096];
    std::error_code error;
    for (;;) {
      const size_t n = other.read_some(asio::buffer(part), error);
      if (error) return error == asio::error::eof ? all : "error: " + error.message();
      all.append(part, n);
    }
  }
  asio::io_context io;
  Socket other{io};
  std::shared_ptr<Connection> connection;
};

}  // namespace

TEST_CASE("a finished connection delivers what was queued, whatever comes meanwhile") {
  Pair pair;
  std::string heard;
  std::thread listener([&] {
    // More than one socket buffer, so that it is still coming when the connection is finished.
    const std::string noise = frame(Type::kQuery, std::string(4000, 'n'));
    std::error_code error;
    for (int i = 0; i < 100 && !error; ++i) asio::write(pair.other, asio::buffer(noise), error);
    heard = pair.read_all();
    pair.other.close();
  });
  std::string said;
  bool ended = false;
  Connection::Handler handler;
  handler.frame = [](Type, const std::string&) {};
  pair.connection->start(std::move(handler));
  for (int i = 0; i < 50; ++i) {
    said += frame(Type::kFailed, std::string(4000, static_cast<char>('a' + i % 26)));
    pair.connection->send(Type::kFailed, std::string(4000, static_cast<char>('a' + i % 26)));
  }
  pair.connection->finish([&] { ended = true; });
  CHECK_FALSE(pair.connection->open());
  pair.connection->send(Type::kFailed, "too late");
  pair.io.run();
  listener.join();
  CHECK(ended);
  CHECK(heard.size() == said.size());
  CHECK(heard == said);
}

TEST_CASE("a finished connection does not wait for ever for the other end") {
  Pair pair;
  int ended = 0;
  pair.connection->start({});
  SECTION("that says nothing") {}
  SECTION("that reads nothing") {
    // More than both kernels hold.
    for (int i = 0; i < 64; ++i) pair.connection->send(Type::kFailed, std::string(1 << 20, 'x'));
  }
  pair.connection->finish([&] { ++ended; });
  pair.connection->finish([&] { ++ended; });
  pair.io.run();  // ends when nothing is pending any more
  CHECK(ended == 2);
  pair.connection->finish([&] { ++ended; });
  CHECK(ended == 3);
}
