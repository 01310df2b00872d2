// Bytes, addresses, ids and neighbours: everything that needs no socket.
#include <random>
#include <set>

#include "bootstrap/address.h"
#include "bootstrap/authentication.h"
#include "bootstrap/exchange.h"
#include "bootstrap/neighbours.h"
#include "bootstrap/root.h"
#include "bootstrap/unique_id.h"
#include "bootstrap/wire.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::bootstrap;

namespace {

Endpoint v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port = 5) {
  Endpoint e;
  e.address = {a, b, c, d};
  e.port = port;
  return e;
}

Endpoint v6(const char* text, uint16_t port = 6) {
  return from_asio(TcpEndpoint(asio::ip::make_address(text), port));
}

Member member() { return {"host", "name", "10.0.0.1", {v4(10, 0, 0, 1), v6("2001:db8::1")}}; }

Hello hello() {
  Hello h;
  h.purpose = Purpose::kPeer;
  h.session[3] = 4;
  h.instance[5] = 6;
  h.size = 4;
  h.rank = 3;
  h.target = 2;
  h.host = "host";
  h.name = "name";
  h.local = "fe80::1%en5";
  h.endpoints = member().endpoints;
  return h;
}

// True if the bytes parse as M, and then come out as they went in.
template <class M, class... A>
bool round_trip(const std::string& bytes, A... more) {
  M m;
  if (!M::parse(bytes, more..., &m)) return false;
  return m.encode() == bytes;
}

struct Message {
  const char* name;
  std::string bytes;
  bool (*parse)(const std::string&);
};

std::vector<Message> messages() {
  Table table;
  table.members = {member(), member(), {}};
  Blobs blobs;
  blobs.sequence = 9;
  blobs.blobs = {{0, "abc"}, {1, ""}, {2, std::string(300, 'x')}};
  Answer answer{1, 2, 3, 4, 5, "all-reduce", {6, 7}};
  return {
      {"opening", Opening{{1, 2, 3}, true}.encode(),
       [](const std::string& b) { return round_trip<Opening>(b); }},
      {"sealed", Sealed{"body", std::string(32, 'p')}.encode(),
       [](const std::string& b) { return round_trip<Sealed>(b, kMaxStrangerBytes); }},
      {"hello", hello().encode(), [](const std::string& b) { return round_trip<Hello>(b); }},
      {"welcome", Welcome{{7}, 3}.encode(),
       [](const std::string& b) { return round_trip<Welcome>(b); }},
      {"refusal", Refusal{5, "why"}.encode(),
       [](const std::string& b) { return round_trip<Refusal>(b); }},
      {"table", table.encode(), [](const std::string& b) { return round_trip<Table>(b); }},
      {"blobs", blobs.encode(), [](const std::string& b) { return round_trip<Blobs>(b); }},
      {"notice", Notice{1, 2, 6, "gone"}.encode(),
       [](const std::string& b) { return round_trip<Notice>(b); }},
      {"query", Query{1, 2, 3}.encode(), [](const std::string& b) { return round_trip<Query>(b); }},
      {"answer", answer.encode(), [](const std::string& b) { return round_trip<Answer>(b); }},
  };
}

}  // namespace

TEST_CASE("every message comes back as it went, and nothing shorter or longer is taken for it") {
  for (const Message& m : messages()) {
    CAPTURE(m.name);
    CHECK(m.parse(m.bytes));
    for (size_t n = 0; n < m.bytes.size(); ++n) REQUIRE_FALSE(m.parse(m.bytes.substr(0, n)));
    CHECK_FALSE(m.parse(m.bytes + '\0'));
  }
}

TEST_CASE("mutated messages are refused, or read as what they then say") {
  std::mt19937 random(7);
  for (const Message& m : messages()) {
    CAPTURE(m.name);
    for (int round = 0; round < 5000; ++round) {
      std::string bytes = m.bytes;
      for (unsigned i = 0; i <= random() % 4; ++i) {
        const size_t where = random() % bytes.size();
        switch (random() % 4) {
          case 0:
            bytes[where] = static_cast<char>(random());
            break;
          case 1:
            bytes[where] = '\xff';
            break;
          case 2:
            bytes.insert(where, 1 + random() % 8, static_cast<char>(random()));
            break;
          default:
            bytes.erase(where, 1 + random() % 8);
        }
        if (bytes.empty()) bytes = "x";
      }
      // Under the sanitizers this shows that no byte outside is read.
      (void)m.parse(bytes);
    }
  }
}

TEST_CASE("a hello out of bounds is refused") {
  Hello out;
  Hello h = hello();
  h.rank = 4;
  CHECK_FALSE(Hello::parse(h.encode(), &out));
  h = hello();
  h.size = 0;
  CHECK_FALSE(Hello::parse(h.encode(), &out));
  h = hello();
  h.size = kMaxRanks + 1;
  CHECK_FALSE(Hello::parse(h.encode(), &out));
  h = hello();
  h.host.assign(kMaxHostId + 1, 'x');
  CHECK_FALSE(Hello::parse(h.encode(), &out));
  h = hello();
  h.endpoints[0].port = 0;
  CHECK_FALSE(Hello::parse(h.encode(), &out));
}

TEST_CASE("frame headers") {
  const std::string bytes = frame(Type::kTable, "abc");
  FrameHeader header;
  REQUIRE(parse_header(bytes.substr(0, kFrameHeaderBytes), &header));
  CHECK(header.version == kWireVersion);
  CHECK(header.type == Type::kTable);
  CHECK(header.length == 3);
  CHECK_FALSE(parse_header("GET / HTTP/1", &header));
  CHECK_FALSE(parse_header("tbcc", &header));
}

TEST_CASE("ids hold their content, and a damaged one is recognised") {
  IdContent content;
  content.session[2] = 9;
  content.host = 77;
  content.port = 4242;
  for (uint8_t i = 0; i < 30; ++i)
    content.endpoints.push_back(i % 3 == 0 ? v6("2001:db8::7") : v4(10, 0, 0, i));
  const tbcclUniqueId id = encode_id(content);
  IdContent back;
  REQUIRE(decode_id(id, &back).ok());
  CHECK(back.session == content.session);
  CHECK(back.host == 77);
  CHECK(back.port == 4242);
  REQUIRE(back.endpoints.size() > 4);
  CHECK(back.endpoints[1].address == content.endpoints[1].address);
  CHECK(back.endpoints[1].port == 4242);
  for (size_t i = 0; i < sizeof id.internal; ++i) {
    tbcclUniqueId damaged = id;
    damaged.internal[i] = static_cast<char>(damaged.internal[i] ^ 1);
    REQUIRE(decode_id(damaged, &back).code() == tbcclInvalidArgument);
  }
}

TEST_CASE("the largest card fits its place") {
  Member m;
  m.host.assign(kMaxHostId, 'h');
  m.name.assign(kMaxHostId, 'n');
  m.local.assign(kMaxAddress, 'l');
  m.endpoints.assign(kMaxEndpoints, v6("2001:db8::7"));
  const std::string bytes = Card{1, 2, {}, m}.encode();
  REQUIRE(bytes.size() == kCardBytes);
  Card card;
  REQUIRE(Card::parse(bytes, &card));
  CHECK(card.rank == 1);
  CHECK(card.member.endpoints == m.endpoints);
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = bytes;
    for (int k = 0; k < 3; ++k) bad[random() % 100] = static_cast<char>(random());
    (void)Card::parse(bad, &card);
  }
}

TEST_CASE("host and port") {
  HostPort out;
  REQUIRE(parse_host_port("[fe80::1%en5]:29400", &out).ok());
  CHECK(out.host == "fe80::1%en5");
  CHECK(out.port == 29400);
  REQUIRE(parse_host_port("mac-1.local:1", &out).ok());
  CHECK(out.host == "mac-1.local");
  PortRange range;
  REQUIRE(parse_port_range("29400-29410", &range).ok());
  CHECK(range.first == 29400);
  CHECK(range.last == 29410);
  REQUIRE(parse_port_range("", &range).ok());
  CHECK(range.last == 0);
  for (const char* text : {"-", "1-", "-1", "2-1", "x", "1-70000", "1-2-3"})
    CHECK_FALSE(parse_port_range(text, &range).ok());
}

TEST_CASE("interfaces are chosen by prefix, exactly, or excluded") {
  CHECK(interface_matches("", "eth0"));
  CHECK(interface_matches("eth", "eth0"));
  CHECK_FALSE(interface_matches("=eth", "eth0"));
  CHECK(interface_matches("=eth0", "eth0"));
  CHECK(interface_matches("en,eth", "eth0"));
  CHECK_FALSE(interface_matches("^docker,lo", "docker0"));
  CHECK(interface_matches("^docker,lo", "eth0"));
}

TEST_CASE("a peer on this host is dialed over loopback, and never one elsewhere") {
  const std::vector<Endpoint> both = {v4(10, 0, 0, 1), v4(127, 0, 0, 1), v6("::1")};
  const auto here = dial_order(both, true);
  REQUIRE(here.size() == 3);
  CHECK(here[0].address().is_loopback());
  CHECK(here[1].address().is_loopback());
  const auto there = dial_order(both, false);
  REQUIRE(there.size() == 1);
  CHECK(endpoint_text(there[0]) == "10.0.0.1:5");
  CHECK(endpoint_text(to_asio(v6("::1"))) == "[::1]:6");
  CHECK(from_asio(TcpEndpoint(asio::ip::make_address("::ffff:10.0.0.9"), 3)) == v4(10, 0, 0, 9, 3));
}

TEST_CASE("neighbours are mutual, few, and hold together without any one rank") {
  for (uint32_t size = 1; size <= 70; ++size) {
    CAPTURE(size);
    for (uint32_t a = 0; a < size; ++a) {
      const auto list = neighbours(a, size);
      if (size > kFullMeshRanks)
        REQUIRE(list.size() <= 5);
      else
        REQUIRE(list.size() == size - 1);
      for (const uint32_t b : list) {
        const auto back = neighbours(b, size);
        REQUIRE(std::count(back.begin(), back.end(), a) == 1);
      }
      for (const uint32_t child : tree_children(a, size)) {
        REQUIRE(tree_parent(child) == a);
        REQUIRE(std::count(list.begin(), list.end(), child) == 1);
      }
    }
    for (uint32_t lost = 0; lost < size && size > 1; ++lost) {
      std::set<uint32_t> reached{lost == 0 ? 1u : 0u};
      std::vector<uint32_t> todo(reached.begin(), reached.end());
      while (!todo.empty()) {
        const uint32_t at = todo.back();
        todo.pop_back();
        for (const uint32_t next : neighbours(at, size)) {
          if (next != lost && reached.insert(next).second) todo.push_back(next);
        }
      }
      REQUIRE(reached.size() == size - 1);
    }
  }
}

TEST_CASE("ranks in messages") {
  const auto all = [](uint32_t) { return true; };
  CHECK(name_ranks(1, all) == "rank 0");
  CHECK(name_ranks(2, all) == "ranks 0 and 1");
  CHECK(name_ranks(3, all) == "ranks 0, 1 and 2");
  CHECK(name_ranks(16, all).find("14 and 15") != std::string::npos);
  CHECK(name_ranks(20, all).find("15 and 4 more") != std::string::npos);
}

#ifdef TBCCL_HAVE_SODIUM
TEST_CASE("a proof is bound to the secret, the speaker, both nonces and the body") {
  Authenticator a, b, none;
  REQUIRE(Authenticator::make("secret", &a).ok());
  REQUIRE(Authenticator::make("other", &b).ok());
  REQUIRE(Authenticator::make("", &none).ok());
  Nonces nonces;
  nonces.connector[0] = 1;
  const Sealed sealed{"body", a.prove("x", nonces, "body")};
  CHECK(a.check("x", nonces, sealed));
  CHECK_FALSE(b.check("x", nonces, sealed));
  CHECK_FALSE(a.check("y", nonces, sealed));
  CHECK_FALSE(a.check("x", nonces, {"bodY", sealed.proof}));
  CHECK_FALSE(a.check("x", nonces, {"body", ""}));
  CHECK_FALSE(none.check("x", nonces, sealed));
  Nonces swapped{nonces.acceptor, nonces.connector};
  CHECK_FALSE(a.check("x", swapped, sealed));
}
#endif
