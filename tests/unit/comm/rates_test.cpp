// What is said of trunks that carry much more or less than the basis says.
#include "comm/rates.h"

#include "unit/catch.h"

using namespace tbccl;

namespace {

constexpr uint32_t kNetwork = UINT32_MAX;

link::TrunkCounters trunk(int peer, uint32_t id, double rate, uint64_t bytes = 1u << 30) {
  link::TrunkCounters t;
  t.peer = peer;
  t.id = id;
  t.name = "tcp 10.0.0.1-10.0.0.2";
  t.rate = rate;
  t.rate_bytes = bytes;
  return t;
}

schedule::Basis cabled() {
  schedule::Basis basis;
  basis.size = 3;
  basis.host = {0, 1, 2};
  basis.cables = {{0, 1, 5.0}, {0, 1, 0}};
  return basis;
}

}  // namespace

TEST_CASE("a cable whose stated rate is far from what it carries is warned of once") {
  comm::RateWatch watch(cabled(), 0);
  const double rate = GENERATE(2.4, 10.1);
  const auto said = watch.remarks({trunk(1, 0, rate)});
  REQUIRE(said.size() == 1);
  INFO(said[0].text);
  CHECK(said[0].stated);
  CHECK(said[0].text.find("rank 0: trunk tcp 10.0.0.1-10.0.0.2 to rank 1") == 0);
  CHECK(said[0].text.find(rate < 5 ? "2.4 GB/s, less than the 5 GB/s"
                                   : "10.1 GB/s, more than the 5 GB/s") != std::string::npos);
  CHECK(said[0].text.find("cabling file") != std::string::npos);
  CHECK(watch.remarks({trunk(1, 0, rate / 2)}).empty());
}

TEST_CASE("what is within twice the rate, or was not measured for long, is not remarked upon") {
  comm::RateWatch watch(cabled(), 0);
  CHECK(watch.remarks({trunk(1, 0, 2.6), trunk(1, 1, 9.9)}).empty());
  CHECK(watch.remarks({trunk(1, 0, 0.1, (16u << 20) - 1)}).empty());
  // What falls back on the network besides its cables does not count; what has only the network
  // does.
  CHECK(watch.remarks({trunk(1, kNetwork, 0.001)}).empty());
  CHECK(watch.remarks({trunk(2, kNetwork, 0.001)}).size() == 1);
}

TEST_CASE("the table's guesses are no reason to warn") {
  comm::RateWatch watch(cabled(), 0);
  const auto said = watch.remarks({trunk(1, 1, 0.1), trunk(2, kNetwork, 0.01)});
  REQUIRE(said.size() == 2);
  for (const auto& remark : said) {
    INFO(remark.text);
    CHECK_FALSE(remark.stated);
    CHECK(remark.text.find("MB/s, less than") != std::string::npos);
    CHECK(remark.text.find("a guess") != std::string::npos);
  }
  schedule::Basis plain;
  plain.size = 2;
  plain.host = {0, 0};
  comm::RateWatch local(plain, 0);
  CHECK(local.remarks({trunk(1, kNetwork, plain.local.rate)}).empty());
  CHECK(local.remarks({trunk(1, kNetwork, plain.local.rate * 3)}).size() == 1);
}
