// What is asked of the system for a connection.
#include "tcp/socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <asio/ip/address.hpp>
#include <string>

#include "unit/catch.h"

using namespace tbccl::tcp;

namespace {

int send_buffer(int socket) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  REQUIRE(getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0);
  return bytes;
}

}  // namespace

TEST_CASE("a connection within a host has a short send buffer", "[tcp]") {
  const std::string host = GENERATE(as<std::string>{}, "127.0.0.1", "::1");
  Endpoint bound;
  std::string error;
  const tbccl::Descriptor listener =
      make_listener(asio::ip::make_address(host), PortRange{}, &bound, &error);
  if (!listener.open()) {
    WARN("no connection to " << host << ": " << error);
    return;
  }
  const char* failed = "";
  const tbccl::Descriptor from = start_connecting(bound, nullptr, &failed);
  INFO(failed);
  REQUIRE(from.open());
  pollfd entry{listener.get(), POLLIN, 0};
  REQUIRE(poll(&entry, 1, 20'000) == 1);
  const tbccl::Descriptor to = accept_connection(listener.get());
  REQUIRE(to.open());
  constexpr int kMost = 2 * 256 * 1024;  // Linux tells the doubled number
  for (const int socket : {from.get(), to.get()}) {
    REQUIRE(setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kMost, sizeof kMost) == 0);
    const int before = send_buffer(socket);
    adapt_to_path(socket);
    REQUIRE(send_buffer(socket) <= kMost);
    REQUIRE(send_buffer(socket) <= before);
  }
}
