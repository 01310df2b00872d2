#include "bootstrap/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/formatted.h"

namespace tbccl::bootstrap {
namespace {

constexpr size_t kMaxCandidates = 32;

bool parse_number(std::string_view text, uint32_t max, uint16_t* out) {
  uint32_t v = 0;
  if (text.empty() || text.size() > 5) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    v = v * 10 + static_cast<uint32_t>(c - '0');
  }
  if (v == 0 || v > max) return false;
  *out = static_cast<uint16_t>(v);
  return true;
}

bool from_sockaddr(const sockaddr* address, Endpoint* out) {
  *out = {};
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    std::memcpy(out->address.data(), &v4.sin_addr, 4);
    return true;
  }
  if (address->sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  std::memcpy(out->address.data(), &v6.sin6_addr, 16);
  out->v6 = true;
  out->scope = v6.sin6_scope_id;
#ifdef __APPLE__
  // The kernel keeps the scope of a link-local address in its third and fourth byte.
  if (is_link_local(*out)) {
    if (out->scope == 0) out->scope = static_cast<uint32_t>(out->address[2]) << 8 | out->address[3];
    out->address[2] = out->address[3] = 0;
  }
#endif
  return true;
}

int preference(const Endpoint& e) {
  if (is_loopback(e)) return 3;
  if (is_link_local(e)) return 2;
  return e.v6 ? 1 : 0;
}

}  // namespace

Status parse_host_port(const std::string& text, HostPort* out) {
  const auto bad = [&](const char* why) {
    return Status(tbcclInvalidArgument,
                  formatted("the rendezvous address \"{}\" {}; it is host:port, for example "
                            "10.0.0.1:29400 or [fe80::1%en5]:29400",
                            text, why));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad("has no port");
  std::string host = text.substr(0, colon);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return bad("has an unclosed bracket");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return bad("is an IPv6 address without brackets");
  }
  if (host.empty()) return bad("has no host");
  if (host.size() > 253) return bad("has a host of more than 253 characters");
  if (!parse_number(std::string_view(text).substr(colon + 1), 65535, &out->port)) {
    return bad("has a port that is not a number from 1 to 65535");
  }
  out->host = std::move(host);
  return {};
}

Status parse_port_range(const std::string& text, PortRange* out) {
  *out = {};
  if (text.empty()) return {};
  const std::string_view all(text);
  const size_t dash = all.find('-');
  const std::string_view first = all.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : all.substr(dash + 1);
  if (!parse_number(first, 65535, &out->first) || !parse_number(last, 65535, &out->last) ||
      out->first > out->last) {
    return Status(
        tbcclInvalidArgument,
        formatted("TBCCL_PORT_RANGE is \"{}\"; it is first-last, for example 29400-29500", text));
  }
  return {};
}

TcpEndpoint to_asio(const Endpoint& e) {
  if (e.v6) {
    asio::ip::address_v6::bytes_type bytes;
    std::copy(e.address.begin(), e.address.end(), bytes.begin());
    return {asio::ip::address_v6(bytes, e.scope), e.port};
  }
  asio::ip::address_v4::bytes_type bytes;
  std::copy_n(e.address.begin(), 4, bytes.begin());
  return {asio::ip::address_v4(bytes), e.port};
}

Endpoint from_asio(const TcpEndpoint& from) {
  Endpoint e;
  e.port = from.port();
  asio::ip::address address = from.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  if (address.is_v6()) {
    const auto bytes = address.to_v6().to_bytes();
    std::copy(bytes.begin(), bytes.end(), e.address.begin());
    e.v6 = true;
    e.scope = static_cast<uint32_t>(address.to_v6().scope_id());
  } else {
    const auto bytes = address.to_v4().to_bytes();
    std::copy(bytes.begin(), bytes.end(), e.address.begin());
  }
  return e;
}

std::string address_text(const TcpEndpoint& from) {
  const Endpoint e = from_asio(from);
  char text[INET6_ADDRSTRLEN] = {};
  if (inet_ntop(e.v6 ? AF_INET6 : AF_INET, e.address.data(), text, sizeof text) == nullptr)
    return "?";
  std::string result = text;
  char name[IF_NAMESIZE] = {};
  if (e.v6 && e.scope != 0) {
    result += '%';
    result +=
        if_indextoname(e.scope, name) != nullptr ? std::string(name) : std::to_string(e.scope);
  }
  return result;
}

std::string endpoint_text(const TcpEndpoint& e) {
  const std::string address = address_text(e);
  return from_asio(e).v6 ? formatted("[{}]:{}", address, e.port())
                         : formatted("{}:{}", address, e.port());
}

bool is_loopback(const Endpoint& e) {
  if (!e.v6) return e.address[0] == 127;
  return std::all_of(e.address.begin(), e.address.end() - 1, [](uint8_t b) { return b == 0; }) &&
         e.address[15] == 1;
}

bool is_link_local(const Endpoint& e) {
  if (!e.v6) return e.address[0] == 169 && e.address[1] == 254;
  return e.address[0] == 0xfe && (e.address[1] & 0xc0) == 0x80;
}

bool interface_matches(const std::string& filter, const std::string& name) {
  if (filter.empty()) return true;
  std::string_view list = filter;
  const bool exclude = list.front() == '^';
  if (exclude) list.remove_prefix(1);
  const bool exact = !list.empty() && list.front() == '=';
  if (exact) list.remove_prefix(1);
  bool found = false;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    if (item.empty()) continue;
    found = found || (exact ? name == item : name.compare(0, item.size(), item) == 0);
  }
  return found != exclude;
}

std::vector<LocalAddress> local_addresses(const std::string& filter) {
  std::vector<LocalAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    LocalAddress a;
    if ((i->ifa_flags & IFF_UP) == 0 || !interface_matches(filter, i->ifa_name)) continue;
    if (!from_sockaddr(i->ifa_addr, &a.endpoint)) continue;
    a.interface = i->ifa_name;
    found.push_back(std::move(a));
  }
  freeifaddrs(list);
  std::stable_sort(found.begin(), found.end(), [](const LocalAddress& a, const LocalAddress& b) {
    return preference(a.endpoint) < preference(b.endpoint);
  });
  return found;
}

std::vector<TcpEndpoint> dial_order(const std::vector<Endpoint>& endpoints, bool same_host) {
  std::vector<TcpEndpoint> order;
  if (same_host) {
    for (const Endpoint& e : endpoints) {
      if (is_loopback(e)) order.push_back(to_asio(e));
    }
  }
  for (const Endpoint& e : endpoints) {
    if (is_loopback(e)) continue;
    if (!e.v6 || !is_link_local(e) || e.scope != 0) {
      order.push_back(to_asio(e));
      continue;
    }
    for (const LocalAddress& mine : local_addresses("")) {
      if (!mine.endpoint.v6 || !is_link_local(mine.endpoint)) continue;
      Endpoint scoped = e;
      scoped.scope = mine.endpoint.scope;
      order.push_back(to_asio(scoped));
    }
  }
  if (order.size() > kMaxCandidates) order.resize(kMaxCandidates);
  return order;
}

}  // namespace tbccl::bootstrap
