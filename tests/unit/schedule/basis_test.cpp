#include "schedule/basis.h"

#include <limits>
#include <random>

#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::schedule;

namespace {

Basis sample() {
  Basis b;
  b.size = 4;
  b.deterministic = true;
  b.algorithms = "allreduce:ring";
  b.host = {0, 0, 1, 1};
  b.cores = 8;
  b.cables = {{0, 2, 5.0}, {2, 0, 2.5}, {1, 3, 0}};
  b.gamma = 0.25;
  b.board = true;
  b.preferences = {{tbcclOpAllReduce, 0, 4096, "direct"},
                   {tbcclOpBroadcast, 1, UINT64_MAX, "tree"}};
  return b;
}

}  // namespace

TEST_CASE("a basis survives the wire") {
  for (const Basis& b : {sample(), Basis()}) {
    Basis copy;
    copy.size = 99;
    REQUIRE(Basis::parse(b.serialize(), &copy).ok());
    REQUIRE(copy == b);
    REQUIRE(copy.hash() == b.hash());
    REQUIRE(copy.serialize() == b.serialize());
  }
  Basis other = sample();
  other.cables[0].rate = 5.5;
  REQUIRE(other.hash() != sample().hash());
  other = sample();
  other.preferences[0].to++;
  REQUIRE(other.hash() != sample().hash());
}

TEST_CASE("a damaged basis is refused and leaves the result alone") {
  const std::string good = sample().serialize();
  Basis untouched;
  for (size_t length = 0; length < good.size(); length++)
    REQUIRE(Basis::parse(good.substr(0, length), &untouched).code() == tbcclInvalidUsage);
  for (size_t at = 0; at < good.size(); at++) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    REQUIRE_FALSE(Basis::parse(bad, &untouched).ok());
  }
  REQUIRE_FALSE(Basis::parse(good + "x", &untouched).ok());
  std::mt19937 random(1);
  for (int i = 0; i < 2000; i++) {
    std::string garbage = "TBB3";
    for (unsigned k = random() % 200; k > 0; k--) garbage.push_back(static_cast<char>(random()));
    REQUIRE_FALSE(Basis::parse(garbage, &untouched).ok());
  }
  REQUIRE(untouched == Basis());
}

TEST_CASE("values out of range are refused even if the hash is right") {
  const auto refused = [](auto change) {
    Basis b = sample(), result;
    change(b);
    return !Basis::parse(b.serialize(), &result).ok();
  };
  REQUIRE(refused([](Basis& b) { b.size = 0; }));
  REQUIRE(refused([](Basis& b) { b.cores = 0; }));
  REQUIRE(refused([](Basis& b) { b.host.resize(5); }));
  REQUIRE(refused([](Basis& b) { b.cables[0].a = 4; }));
  REQUIRE(refused([](Basis& b) { b.cables[0].a = b.cables[0].b; }));
  REQUIRE(refused([](Basis& b) { b.cables[0].rate = -1; }));
  REQUIRE(refused([](Basis& b) { b.local.rate = 0; }));
  REQUIRE(refused([](Basis& b) { b.network.alpha = std::numeric_limits<double>::quiet_NaN(); }));
  REQUIRE(refused([](Basis& b) { b.cpu_byte = std::numeric_limits<double>::infinity(); }));
}

TEST_CASE("cables add up and come before the host, the host before the network") {
  const Basis b = sample();
  REQUIRE(b.rate(0, 2) == 7.5);
  REQUIRE(b.rate(2, 0) == 7.5);
  REQUIRE(b.rate(3, 1) == b.cable.rate);
  REQUIRE(b.rate(0, 1) == b.local.rate);
  REQUIRE(b.rate(0, 3) == b.network.rate);
  REQUIRE(b.alpha(0, 2) == b.cable.alpha);
  REQUIRE(b.alpha(0, 1) == b.local.alpha);
  REQUIRE(b.alpha(1, 2) == b.network.alpha);
  REQUIRE(b.joined(0, 2));
  REQUIRE_FALSE(b.joined(0, 1));
  Basis lab = sample();  // a cable between two ranks that claim one host
  lab.cables.push_back({0, 1, 1.0});
  lab.host = {0, 0, 0, 0};
  REQUIRE(lab.medium(2, 3) == Medium::kNetwork);
  REQUIRE(lab.rate(2, 3) == 0.5);
  Basis plain;
  plain.size = 2;
  REQUIRE(plain.joined(0, 1));
  REQUIRE(plain.medium(0, 1) == Medium::kNetwork);
}

TEST_CASE("an index of the cables changes no answer") {
  std::mt19937 random(7);
  for (int round = 0; round < 40; round++) {
    Basis plain;
    plain.size = 2 + static_cast<int32_t>(random() % 7);
    const auto rank = [&] {
      return static_cast<int32_t>(random() % static_cast<unsigned>(plain.size));
    };
    for (int32_t r = 0; r < plain.size; r++)
      plain.host.push_back(static_cast<int32_t>(random() % 3));
    for (unsigned k = random() % 10; k > 0; k--) {
      const int32_t a = rank(), b = rank();
      if (a != b) plain.cables.push_back({a, b, static_cast<double>(random() % 4)});
    }
    Basis indexed = plain;
    indexed.index_cables();
    REQUIRE(indexed == plain);
    REQUIRE(indexed.hash() == plain.hash());
    for (int32_t a = 0; a < plain.size; a++)
      for (int32_t b = 0; b < plain.size; b++) {
        if (a == b) continue;
        REQUIRE(indexed.rate(a, b) == plain.rate(a, b));
        REQUIRE(indexed.medium(a, b) == plain.medium(a, b));
        REQUIRE(indexed.joined(a, b) == plain.joined(a, b));
      }
  }
}
