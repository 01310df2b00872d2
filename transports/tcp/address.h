// Addresses: textual ones, the handles that ranks exchange, and the range of ports.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tbccl::tcp {

using Endpoint = asio::ip::tcp::endpoint;

// A numeric address, IPv4 or IPv6, with scope where it is link-local ("fe80::1%en5"). On failure
// *error says what is wrong. Names are not resolved: cables have no names.
bool parse_address(const std::string& text, asio::ip::address* address, std::string* error);

// What a peer needs for connecting: format version, family, port, address; no scope, since that is
// a number of the listening host.
inline constexpr size_t kHandleBytes = 20;
void encode_handle(const Endpoint& endpoint, void* handle);
bool decode_handle(const void* handle, size_t bytes, Endpoint* endpoint, std::string* error);

// TBCCL_PORT_RANGE, "first-last"; listeners use only these ports. {0, 0}: any port.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
};
bool parse_port_range(const char* text, PortRange* range, std::string* error);

std::string to_text(const Endpoint& endpoint);  // "10.0.0.1:80", "[fe80::1%en5]:80"

}  // namespace tbccl::tcp
