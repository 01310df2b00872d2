#include "tcp/address.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/formatted.h"

namespace tbccl::tcp {
namespace {

constexpr uint8_t kHandleVersion = 1;

}  // namespace

bool parse_address(const std::string& text, asio::ip::address* address, std::string* error) {
  std::error_code code;
  *address = asio::ip::make_address(text, code);
  if (code) {
    *error =
        formatted("\"{}\" is not a numeric IPv4 or IPv6 address (10.0.0.1, fe80::1%en5)", text);
    return false;
  }
  return true;
}

void encode_handle(const Endpoint& endpoint, void* handle) {
  auto* bytes = static_cast<uint8_t*>(handle);
  std::memset(bytes, 0, kHandleBytes);
  bytes[0] = kHandleVersion;
  bytes[2] = static_cast<uint8_t>(endpoint.port() >> 8);
  bytes[3] = static_cast<uint8_t>(endpoint.port());
  if (endpoint.address().is_v4()) {
    bytes[1] = 4;
    const auto raw = endpoint.address().to_v4().to_bytes();
    std::memcpy(bytes + 4, raw.data(), raw.size());
  } else {
    bytes[1] = 6;
    const auto raw = endpoint.address().to_v6().to_bytes();
    std::memcpy(bytes + 4, raw.data(), raw.size());
  }
}

bool decode_handle(const void* handle, size_t size, Endpoint* endpoint, std::string* error) {
  const auto* bytes = static_cast<const uint8_t*>(handle);
  if (size != kHandleBytes || bytes[0] != kHandleVersion || (bytes[1] != 4 && bytes[1] != 6)) {
    *error = formatted(
        "the peer's TCP handle ({} bytes) has a format that this version does not know; use the "
        "same "
        "version of tbccl on all hosts",
        size);
    return false;
  }
  const auto port = static_cast<uint16_t>(bytes[2] << 8 | bytes[3]);
  asio::ip::address address;
  if (bytes[1] == 4) {
    asio::ip::address_v4::bytes_type raw;
    std::memcpy(raw.data(), bytes + 4, raw.size());
    address = asio::ip::address_v4(raw);
  } else {
    asio::ip::address_v6::bytes_type raw;
    std::memcpy(raw.data(), bytes + 4, raw.size());
    address = asio::ip::address_v6(raw);
  }
  *endpoint = Endpoint(address, port);
  return true;
}

bool parse_port_range(const char* text, PortRange* range, std::string* error) {
  *range = PortRange{};
  if (text == nullptr || *text == '\0') return true;
  const char* end = text + std::strlen(text);
  const auto first = std::from_chars(text, end, range->first);
  const bool dash = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
  const auto last = std::from_chars(dash ? first.ptr + 1 : end, end, range->last);
  if (dash && last.ec == std::errc() && last.ptr == end && range->first > 0 &&
      range->first <= range->last) {
    return true;
  }
  *error = formatted("TBCCL_PORT_RANGE is \"{}\"; it must be two ports like 40000-40100", text);
  return false;
}

std::string to_text(const Endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? formatted("[{}]:{}", address, endpoint.port())
                                    : formatted("{}:{}", address, endpoint.port());
}

}  // namespace tbccl::tcp
