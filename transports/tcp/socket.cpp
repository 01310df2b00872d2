#include "tcp/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/formatted.h"

#ifdef __APPLE__
#include <ifaddrs.h>
#include <net/if.h>
#endif

namespace tbccl::tcp {
namespace {

constexpr int kBacklog = 128;
// Keep-alive: an idle connection is dead after 2 + 3 * 1 = 5 s without an answer.
constexpr int kIdleSeconds = 2;
constexpr int kIntervalSeconds = 1;
constexpr int kProbes = 3;
// Of a connection within one host; the kernel doubles it. Measured: with 256 KiB to 384 KiB
// what is under way stays in the caches, and 8 MiB and more move at twice the rate that they have
// when the kernel lets the buffer grow to megabytes; below 128 KiB it costs more than it gives.
constexpr int kNearSendBuffer = 256 * 1024;
// Of a connection between hosts: bytes that the kernel holds beyond those under way. What it holds
// more is in the way of grants, acknowledgements and small messages: with megabytes of it on
// a slow cable a grant takes a third of a second, and exchanges that need grants to go on reach 80
// % of its rate.
constexpr int kFarUnsent = 128 * 1024;

template <class Option>
void set(int socket, const asio::ip::tcp& protocol, const Option& option) {
  setsockopt(socket, option.level(protocol), option.name(protocol), option.data(protocol),
             static_cast<socklen_t>(option.size(protocol)));
}

void set(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

#ifdef __linux__

Descriptor make_socket(const asio::ip::tcp& protocol) {
  return Descriptor(
      ::socket(protocol.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

#else

Descriptor prepared(int number) {
  Descriptor socket(number);
  if (number < 0) return socket;
  fcntl(number, F_SETFD, FD_CLOEXEC);
  fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK);
  set(number, SOL_SOCKET, SO_NOSIGPIPE, 1);
  return socket;
}

Descriptor make_socket(const asio::ip::tcp& protocol) {
  return prepared(::socket(protocol.family(), SOCK_STREAM, IPPROTO_TCP));
}

#endif

#ifdef __APPLE__

// Routes alone do not keep traffic on one cable: two Thunderbolt interfaces may carry addresses of
// the same network.
void bind_to_interface(int socket, const asio::ip::address& local) {
  if (local.is_loopback()) return;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  unsigned index = 0;
  for (const ifaddrs* entry = all; entry != nullptr && index == 0; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (local.is_v4() && entry->ifa_addr->sa_family == AF_INET) {
      const auto* here = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      const auto raw = local.to_v4().to_bytes();
      if (std::memcmp(&here->sin_addr, raw.data(), 4) == 0) index = if_nametoindex(entry->ifa_name);
    } else if (local.is_v6() && entry->ifa_addr->sa_family == AF_INET6) {
      const auto* here = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      const auto raw = local.to_v6().to_bytes();
      const bool scope =
          !local.to_v6().is_link_local() || here->sin6_scope_id == local.to_v6().scope_id();
      if (scope && std::memcmp(&here->sin6_addr, raw.data(), 16) == 0) {
        index = if_nametoindex(entry->ifa_name);
      }
    }
  }
  freeifaddrs(all);
  if (index == 0) return;
  if (local.is_v4()) {
    set(socket, IPPROTO_IP, IP_BOUND_IF, static_cast<int>(index));
  } else {
    set(socket, IPPROTO_IPV6, IPV6_BOUND_IF, static_cast<int>(index));
  }
}

#else

// Linux sends from the interface that has the bound address where the routes say so, which the
// addresses of cables are chosen for.
void bind_to_interface(int, const asio::ip::address&) {}

#endif

Endpoint endpoint_of(int socket, decltype(&getsockname) get) {
  Endpoint endpoint;
  auto bytes = static_cast<socklen_t>(endpoint.capacity());
  if (get(socket, endpoint.data(), &bytes) != 0 || bytes == 0) return Endpoint();
  endpoint.resize(bytes);
  return endpoint;
}

bool bind_in_range(int socket, const asio::ip::address& address, PortRange range) {
  const uint32_t ports = range.last - range.first + 1u;
  // Processes that start together begin at different ports.
  const uint32_t start = static_cast<uint32_t>(getpid()) % ports;
  for (uint32_t i = 0; i < ports; ++i) {
    const auto port = static_cast<uint16_t>(range.first + (start + i) % ports);
    const Endpoint endpoint(address, port);
    if (::bind(socket, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
      if (errno == EADDRINUSE) continue;
      return false;
    }
    if (::listen(socket, kBacklog) == 0) return true;
    return false;
  }
  errno = EADDRINUSE;
  return false;
}

}  // namespace

Descriptor make_listener(const asio::ip::address& address, PortRange range, Endpoint* bound,
                         std::string* error) {
  if (address.is_unspecified()) {
    *error = formatted("cannot listen at {}: peers need one address that they can reach",
                       address.to_string());
    return {};
  }
  Descriptor socket = make_socket(Endpoint(address, 0).protocol());
  const char* failed = "socket";
  if (socket.open()) {
    set(socket.get(), Endpoint(address, 0).protocol(), asio::socket_base::reuse_address(true));
    failed = "bind or listen";
    if (bind_in_range(socket.get(), address, range)) {
      *bound = local_endpoint(socket.get());
      return socket;
    }
  }
  const int reason = errno;
  *error = formatted("cannot listen at {}: {} failed: {}", address.to_string(), failed,
                     std::strerror(reason));
  if (reason == EADDRNOTAVAIL || reason == EINVAL)
    *error += "; is it an address of this host, and its interface up?";
  if (reason == EADDRINUSE && range.first > 0) {
    *error += formatted("; all ports of TBCCL_PORT_RANGE ({}-{}) are taken, widen it", range.first,
                        range.last);
  }
  if (reason == EMFILE || reason == ENFILE) *error += "; raise the limit of open files (ulimit -n)";
  return {};
}

Descriptor accept_connection(int listener) {
  for (int attempt = 0; attempt < 8; ++attempt) {
#ifdef __linux__
    Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
#else
    Descriptor socket = prepared(accept(listener, nullptr, nullptr));
#endif
    // A connection that was reset before we came is not ours to report.
    if (socket.open() || (errno != EINTR && errno != ECONNABORTED)) return socket;
  }
  errno = EAGAIN;
  return {};
}

Descriptor start_connecting(const Endpoint& remote, const asio::ip::address* local,
                            const char** failed) {
  Endpoint to = remote;
  if (local != nullptr && local->is_v6() && to.address().is_v6() &&
      to.address().to_v6().is_link_local()) {
    // The peer is on the cable of our interface.
    asio::ip::address_v6 scoped = to.address().to_v6();
    scoped.scope_id(local->to_v6().scope_id());
    to.address(scoped);
  }
  *failed = "socket";
  Descriptor socket = make_socket(to.protocol());
  if (!socket.open()) return socket;
  if (local != nullptr) {
    *failed = "bind";
    const Endpoint from(*local, 0);
    if (::bind(socket.get(), from.data(), static_cast<socklen_t>(from.size())) != 0) {
      const int reason = errno;
      socket.reset();
      errno = reason;
      return socket;
    }
    bind_to_interface(socket.get(), *local);
  }
  set_trunk_options(socket.get());
  *failed = "connect";
  if (::connect(socket.get(), to.data(), static_cast<socklen_t>(to.size())) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    const int reason = errno;
    socket.reset();
    errno = reason;
  }
  return socket;
}

Connecting look_at_connecting(int socket, int* error) {
  pollfd entry{socket, POLLOUT, 0};
  if (::poll(&entry, 1, 0) <= 0) return Connecting::kPending;
  socklen_t bytes = sizeof *error;
  *error = 0;
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, error, &bytes) != 0) *error = errno;
  return *error == 0 ? Connecting::kDone : Connecting::kFailed;
}

void set_trunk_options(int socket) {
  const asio::ip::tcp any = asio::ip::tcp::v4();  // the options' names are the same for both
  set(socket, any, asio::ip::tcp::no_delay(true));
  set(socket, any, asio::socket_base::keep_alive(true));
#ifdef __APPLE__
  set(socket, IPPROTO_TCP, TCP_KEEPALIVE, kIdleSeconds);
  set(socket, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, 1);  // seconds of unanswered retransmission
#else
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
#endif
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kIntervalSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

void adapt_to_path(int socket) {
  const asio::ip::address local = local_endpoint(socket).address();
  const bool near = local.is_loopback() ||
                    (!local.is_unspecified() && local == remote_endpoint(socket).address());
  if (near) {
    set(socket, asio::ip::tcp::v4(), asio::socket_base::send_buffer_size(kNearSendBuffer));
  } else {
    set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kFarUnsent);
  }
}

Endpoint local_endpoint(int socket) { return endpoint_of(socket, &getsockname); }
Endpoint remote_endpoint(int socket) { return endpoint_of(socket, &getpeername); }

}  // namespace tbccl::tcp
