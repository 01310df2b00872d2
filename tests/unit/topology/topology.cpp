#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

#include "topology/cabling.h"
#include "topology/host.h"
#include "topology/placement.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::topology;

namespace {

const char* const kTwo =
    R"({"cables":[{"ends":[{"rank":0,"address":"10.100.0.1"},{"rank":1,"address":"10.100.0.2"}],"rate":"100mbit"},
        {"ends":[{"rank":1,"address":"fe80::1%en5"},{"rank":2,"address":"FE80:0::2%en6"}]}]})";

std::string cable(const std::string& a, const std::string& b, const std::string& more = "") {
  return R"({"cables":[{"ends":[)" + a + "," + b + "]" + more + "}]}";
}
std::string end(const std::string& rank, const std::string& address) {
  return R"({"rank":)" + rank + R"(,"address":")" + address + "\"}";
}

std::string error_of(const std::string& text) {
  std::vector<CableSpec> cables{CableSpec()};
  const Status status = parse_cabling(text, "cables.json", 4, &cables);
  CHECK(cables.empty());
  return status.ok() ? "" : status.text();
}

}  // namespace

TEST_CASE("a cabling file is read whole") {
  std::vector<CableSpec> cables;
  REQUIRE(parse_cabling(kTwo, "x", 3, &cables).ok());
  REQUIRE(cables.size() == 2);
  CHECK(cables[0].a == CableEnd{0, "10.100.0.1"});
  CHECK(cables[0].b == CableEnd{1, "10.100.0.2"});
  CHECK(cables[0].rate == Approx(0.0125));
  CHECK(cables[1].b == CableEnd{2, "fe80::2%en6"});
  CHECK(cables[1].rate == 0);
  REQUIRE(parse_cabling(R"({"cables":[]})", "x", 1, &cables).ok());
  CHECK(cables.empty());
}

TEST_CASE("cabling comes from a file, whose absence is explained") {
  const std::string path = "unit-topology-cables.json";
  std::ofstream(path) << kTwo;
  std::vector<CableSpec> cables;
  CHECK(read_cabling(path, 3, &cables).ok());
  CHECK(cables.size() == 2);
  std::remove(path.c_str());
  const Status status = read_cabling(path, 3, &cables);
  CHECK(status.code() == tbcclInvalidArgument);
  CHECK(status.text().find(path) != std::string::npos);
}

TEST_CASE("errors in a cabling file name file, cable and field") {
  const std::string a = end("0", "10.0.0.1"), b = end("1", "10.0.0.2");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "cables.json: is not JSON"},
      {"[]", "no list \"cables\""},
      {R"({"cables":3})", "no list \"cables\""},
      {R"({"cables":[3]})", "cable 0"},
      {R"({"cables":[{"ends":[]}]})", "\"ends\""},
      {cable(a, end("4", "10.0.0.2")), "ends[1].rank\" is 4, but ranks are 0 to 3"},
      {cable(a, end("-1", "10.0.0.2")), "ends[1].rank\" is -1"},
      {cable(a, end("18446744073709551615", "10.0.0.2")), "ends[1].rank"},
      {cable(a, end("1.5", "10.0.0.2")), "ends[1].rank"},
      {cable(a, end("1", "10.0.0.256")), "ends[1].address"},
      {cable(a, end("1", "host")), "ends[1].address"},
      {cable(a, end("1", "10.0.0.2%eth0")), "ends[1].address"},
      {cable(a, end("1", "fe80::1%")), "ends[1].address"},
      {cable(a, end("0", "10.0.0.2")), "are both rank 0"},
      {cable(a, end("1", "fe80::2%en5")),
       "cable 0: \"ends\" are 10.0.0.1 (IPv4) and fe80::2%en5 (IPv6)"},
      {cable(a, b, R"(,"rate":"fast")"), "\"rate\" is \"fast\""},
      {cable(a, b, R"(,"rate":100)"), "\"rate\" is 100"},
      {cable(a, b, R"(,"speed":"1gbit")"), "\"speed\" is not known"},
      {R"({"cables":[{"ends":[)" + a + "," + b + R"(]},{"ends":[)" + end("2", "10.0.0.3") + "," +
           a + "]}]}",
       "cable 1: \"address\" 10.0.0.1 of rank 0 is already an end of cable 0"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK(error_of(text).find(expected) != std::string::npos);
  }
}

TEST_CASE("rates") {
  double rate = 0;
  const std::vector<std::pair<std::string, double>> good = {
      {"8bit", 1e-9}, {"100kbit", 1.25e-5}, {"40gbit", 5}, {"2.5gbit", 0.3125},
      {"5GB/s", 5},   {"1KB", 1e-6},        {"3B", 3e-9},  {"10mbit/s", 1.25e-3}};
  for (const auto& [text, expected] : good) {
    CAPTURE(text);
    REQUIRE(parse_rate(text, &rate));
    CHECK(rate == Approx(expected));
  }
  for (const char* text : {"", "gbit", "0gbit", "-1gbit", "1", "1 gbit", "1.2.3gbit", ".5gbit",
                           "1gbitx", "1e3bit", "/s", "nan"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_rate(text, &rate));
  }
}

TEST_CASE("no mutation of a cabling file does harm") {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text = kTwo;
    const unsigned changes = 1 + random() % 4;
    for (unsigned i = 0; i < changes && !text.empty(); ++i) {
      const size_t where = random() % text.size();
      if (random() % 3 == 0)
        text.erase(where, 1 + random() % 5);
      else if (random() % 2 == 0)
        text.insert(where, text.substr(random() % text.size(), random() % 20));
      else
        text[where] = static_cast<char>(random());
    }
    std::vector<CableSpec> cables;
    const Status status = parse_cabling(text, "x", 3, &cables);
    if (!status.ok()) REQUIRE(!status.text().empty());
    for (const CableSpec& c : cables) {
      REQUIRE(c.a.rank != c.b.rank);
      REQUIRE((c.a.rank >= 0 && c.a.rank < 3 && c.b.rank >= 0 && c.b.rank < 3));
    }
  }
}

TEST_CASE("the host says who it is and what may be used of it") {
  CHECK(host_identity().size() >= 8);
  CHECK(host_identity().size() <= 128);
  CHECK(&host_identity() == &host_identity());
  CHECK(usable_cores() >= 1);
  CHECK(!host_name().empty());
}

TEST_CASE("placing and naming threads never fails") {
  std::thread([] {
    name_thread("a name that is longer than the system keeps");
    for (const int count : {1, 2, 100000}) {
      for (const int index : {-1, 0, 1, 99999}) place_worker(index, count);
    }
  }).join();
  CHECK(usable_cores() >= 1);
}
