// Textual addresses, this host's interfaces, and in which order to try a peer's addresses.
#pragma once

#include <asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "bootstrap/wire.h"

namespace tbccl::bootstrap {

using TcpEndpoint = asio::ip::tcp::endpoint;

struct HostPort {
  std::string host;  // literal (scope allowed) or name
  uint16_t port = 0;
};

// "host:port", "10.0.0.1:5000", "[fe80::1%en5]:5000". InvalidArgument says what is wrong.
Status parse_host_port(const std::string& text, HostPort* out);
// "first-last" or one port; empty: {0, 0}, any port.
struct PortRange {
  uint16_t first = 0, last = 0;
};
Status parse_port_range(const std::string& text, PortRange* out);

TcpEndpoint to_asio(const Endpoint& e);
Endpoint from_asio(const TcpEndpoint& e);         // v4 addresses mapped into v6 become v4
std::string address_text(const TcpEndpoint& e);   // without the port, scope as a name
std::string endpoint_text(const TcpEndpoint& e);  // "10.0.0.1:5000", "[::1]:5000"
bool is_loopback(const Endpoint& e);
bool is_link_local(const Endpoint& e);

struct LocalAddress {
  std::string interface;
  Endpoint endpoint;  // port 0
};

// Addresses of interfaces that are up, best first: routable IPv4, routable IPv6, link-local,
// loopback. `filter` is TBCCL_SOCKET_IFNAME in NCCL's grammar: a list of prefixes, "^" excludes,
// "=" wants exact names; without one, loopback is included.
std::vector<LocalAddress> local_addresses(const std::string& filter);
bool interface_matches(const std::string& filter, const std::string& name);

// What to dial to reach a peer: loopback first if it is on this host and never otherwise;
// link-local IPv6 once per local interface that has such an address. Bounded.
std::vector<TcpEndpoint> dial_order(const std::vector<Endpoint>& endpoints, bool same_host);

}  // namespace tbccl::bootstrap
