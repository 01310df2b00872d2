#include "bootstrap/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace tbccl::bootstrap {
namespace {

constexpr int kSilenceSeconds = 5;

std::error_code last_error() { return {errno, asio::error::get_system_category()}; }

void set_option(int descriptor, int level, int name, int value) {
  // A system that lacks one of these still works, only later.
  (void)setsockopt(descriptor, level, name, &value, sizeof value);
}

// A descriptor that is non-blocking and closed on exec; -1 if that fails.
int prepare(int descriptor) {
  if (descriptor < 0) return -1;
  const int flags = fcntl(descriptor, F_GETFL);
  if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0 || flags < 0 ||
      fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
    const int why = errno;
    ::close(descriptor);
    errno = why;
    return -1;
  }
#ifdef SO_NOSIGPIPE
  set_option(descriptor, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
  return descriptor;
}

int new_descriptor(int family) {
#ifdef SOCK_CLOEXEC
  return prepare(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
#else
  return prepare(::socket(family, SOCK_STREAM, 0));
#endif
}

}  // namespace

std::error_code open_socket(const TcpEndpoint& to, Socket* socket) {
  const int descriptor = new_descriptor(to.protocol().family());
  if (descriptor < 0) return last_error();
  std::error_code error;
  socket->assign(to.protocol(), descriptor, error);
  if (error) ::close(descriptor);
  return error;
}

std::error_code accept_socket(Acceptor& acceptor, Socket* socket) {
#ifdef __linux__
  const int descriptor =
      prepare(::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
#else
  const int descriptor = prepare(::accept(acceptor.native_handle(), nullptr, nullptr));
#endif
  if (descriptor < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED) {
      return asio::error::would_block;
    }
    return last_error();
  }
  std::error_code error;
  const TcpEndpoint local = acceptor.local_endpoint(error);
  if (!error) socket->assign(local.protocol(), descriptor, error);
  if (error) ::close(descriptor);
  return error;
}

void set_liveness(Socket& socket) {
  const int descriptor = socket.native_handle();
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 1);
#elif defined(TCP_KEEPALIVE)
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPALIVE, 1);
#endif
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kSilenceSeconds - 1);
#ifdef TCP_USER_TIMEOUT
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceSeconds * 1000);
#elif defined(TCP_RXT_CONNDROPTIME)
  set_option(descriptor, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, kSilenceSeconds);
#endif
}

std::error_code listen_at(const TcpEndpoint& at, Acceptor* acceptor) {
  const int descriptor = new_descriptor(at.protocol().family());
  if (descriptor < 0) return last_error();
  std::error_code error;
  acceptor->assign(at.protocol(), descriptor, error);
  if (error) {
    ::close(descriptor);
    return error;
  }
  set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  if (at.address().is_v6()) {
    set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, at.address().is_unspecified() ? 0 : 1);
  }
  acceptor->bind(at, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    std::error_code ignored;
    acceptor->close(ignored);
  }
  return error;
}

}  // namespace tbccl::bootstrap
