#include "base/hash.h"

#include <set>

#include "unit/catch.h"

using namespace tbccl;

TEST_CASE("fnv1a64: published vectors") {
  REQUIRE(fnv1a64("") == 0xcbf29ce484222325u);
  REQUIRE(fnv1a64("a") == 0xaf63dc4c8601ec8cu);
  REQUIRE(fnv1a64("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("fingerprints depend on every value, their order and their borders") {
  std::set<uint64_t> seen;
  for (uint64_t a = 0; a < 40; ++a) {
    for (uint64_t b = 0; b < 40; ++b) seen.insert(Fingerprint().add(a).add(b).value());
  }
  REQUIRE(seen.size() == 1600);
  REQUIRE(Fingerprint().add("ab").add("c").value() != Fingerprint().add("a").add("bc").value());
  REQUIRE(Fingerprint().value() != Fingerprint().add(uint64_t{0}).value());
  constexpr uint64_t at_compile_time = Fingerprint().add(7).add("x").value();
  REQUIRE(at_compile_time == Fingerprint().add(7).add("x").value());
}

TEST_CASE("mix64: each input bit reaches the output") {
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t difference = mix64(0x1234567) ^ mix64(0x1234567 ^ (uint64_t{1} << bit));
    int changed = 0;
    for (int i = 0; i < 64; ++i) changed += static_cast<int>(difference >> i & 1u);
    REQUIRE(changed > 12);
  }
}
