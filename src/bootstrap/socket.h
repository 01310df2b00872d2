// Sockets as the control plane wants them: closed on exec from the first instant, and failing
// within five seconds when the other kernel is silent (not when the other process is).
#pragma once

#include <asio/ip/tcp.hpp>
#include <string>

#include "base/status.h"
#include "bootstrap/address.h"

namespace tbccl::bootstrap {

using Socket = asio::ip::tcp::socket;
using Acceptor = asio::ip::tcp::acceptor;

// Opens a non-blocking stream socket for the family of `to`.
std::error_code open_socket(const TcpEndpoint& to, Socket* socket);
// Takes a waiting connection. asio::error::would_block if there is none.
std::error_code accept_socket(Acceptor& acceptor, Socket* socket);
// Keep-alive, user timeout, no delay.
void set_liveness(Socket& socket);
// Listens there; a v6 wildcard also takes IPv4.
std::error_code listen_at(const TcpEndpoint& at, Acceptor* acceptor);

}  // namespace tbccl::bootstrap
