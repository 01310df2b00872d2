// The parts that need no socket: addresses, handles, port ranges, greetings, frame prefixes.
#include <asio/ip/address.hpp>
#include <string>

#include "tcp/address.h"
#include "tcp/frame.h"
#include "tcp/greeting.h"
#include "unit/catch.h"

using namespace tbccl::tcp;

TEST_CASE("numeric addresses are parsed, names are refused with a reason", "[tcp]") {
  asio::ip::address address;
  std::string error;
  for (const char* good : {"127.0.0.1", "::1", "10.100.0.1", "fe80::1%lo"}) {
    INFO(good);
    REQUIRE(parse_address(good, &address, &error));
    REQUIRE_FALSE(address.is_unspecified());
  }
  for (const char* bad : {"", "localhost", "127.0.0", "1.2.3.4:5", "[::1]"}) {
    INFO(bad);
    REQUIRE_FALSE(parse_address(bad, &address, &error));
    REQUIRE(error.find("not a numeric") != std::string::npos);
  }
}

TEST_CASE("a handle carries address and port, never the scope", "[tcp]") {
  for (const char* text : {"10.1.2.3", "fe80::1:2", "fe80::1:2%lo"}) {
    const Endpoint before(asio::ip::make_address(text), 50'123);
    uint8_t handle[kHandleBytes];
    encode_handle(before, handle);
    Endpoint after;
    std::string error;
    REQUIRE(decode_handle(handle, sizeof handle, &after, &error));
    REQUIRE(after.port() == 50'123);
    const std::string plain = std::string(text).substr(0, std::string(text).find('%'));
    REQUIRE(after.address() == asio::ip::make_address(plain));
    for (const size_t broken : {size_t{0}, size_t{1}}) {
      uint8_t other[kHandleBytes];
      encode_handle(before, other);
      other[broken] = 99;
      REQUIRE_FALSE(decode_handle(other, sizeof other, &after, &error));
    }
    REQUIRE_FALSE(decode_handle(handle, sizeof handle - 1, &after, &error));
    REQUIRE_FALSE(decode_handle(handle, 0, &after, &error));
  }
}

TEST_CASE("port ranges", "[tcp]") {
  PortRange range;
  std::string error;
  REQUIRE(parse_port_range(nullptr, &range, &error));
  REQUIRE(range.first == 0);
  REQUIRE(parse_port_range("40000-40100", &range, &error));
  REQUIRE((range.first == 40000 && range.last == 40100));
  REQUIRE(parse_port_range("7-7", &range, &error));
  for (const char* bad :
       {"40000", "-", "1-", "-1", "2-1", "0-5", "1-65536", "1-2x", "a-b", "1 - 2"}) {
    INFO(bad);
    REQUIRE_FALSE(parse_port_range(bad, &range, &error));
    REQUIRE(error.find("TBCCL_PORT_RANGE") != std::string::npos);
  }
}

TEST_CASE("a greeting is recognised at every length, and garbage at its first wrong byte",
          "[tcp]") {
  const std::string content(TBCCL_HELLO_MAX_BYTES, 'x');
  for (const size_t bytes : {size_t{0}, size_t{1}, content.size()}) {
    const auto greeting = make_greeting(kHelloMagic, content.data(), bytes);
    size_t length = 0;
    for (size_t have = 0; have < greeting.size(); ++have) {
      REQUIRE(parse_greeting(greeting.data(), have, kHelloMagic, &length) == Greeting::kIncomplete);
    }
    REQUIRE(parse_greeting(greeting.data(), greeting.size(), kHelloMagic, &length) ==
            Greeting::kComplete);
    REQUIRE(length == bytes);
    REQUIRE(parse_greeting(greeting.data(), greeting.size(), kReplyMagic, &length) ==
            Greeting::kWrong);
    for (size_t at = 0; at < 4; ++at) {
      auto wrong = greeting;
      wrong[at] ^= 1;
      REQUIRE(parse_greeting(wrong.data(), at + 1, kHelloMagic, &length) == Greeting::kWrong);
    }
    auto huge = greeting;
    huge[4] = 0x01;
    huge[5] = 0x04;  // 1025
    REQUIRE(parse_greeting(huge.data(), kGreetingPrefixBytes, kHelloMagic, &length) ==
            Greeting::kWrong);
  }
}

TEST_CASE("a frame's prefix gives its length, up to the maximum", "[tcp]") {
  uint8_t head[kHeadBytes];
  const uint8_t header[TBCCL_FRAME_HEADER_BYTES] = {1, 2, 3};
  uint32_t length = 0;
  for (const uint32_t bytes : {0u, 1u, 0x12345u, kMaxPayload}) {
    encode_head(head, header, bytes);
    REQUIRE(decode_prefix(head, &length));
    REQUIRE(length == bytes);
  }
  encode_head(head, header, kMaxPayload + 1);
  REQUIRE_FALSE(decode_prefix(head, &length));
  encode_head(head, header, 5);
  head[7] ^= 0x80;
  REQUIRE_FALSE(decode_prefix(head, &length));
}
