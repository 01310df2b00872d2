#include "topology/sketch.h"

#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::topology;

namespace {

Sketch sketch(const std::string& text) {
  Sketch s;
  const Status status = parse_sketch(text, &s);
  INFO(status.text());
  REQUIRE(status.ok());
  return s;
}

std::string error_of(const std::string& text) {
  Sketch s;
  const Status status = parse_sketch(text, &s);
  CHECK(s.ranks == 1);
  return status.text();
}

}  // namespace

TEST_CASE("shapes have the cables they should") {
  CHECK(sketch("ring:8").cables.size() == 8);
  CHECK(sketch("ring:2").cables.size() == 1);
  CHECK(sketch("ring:1").cables.empty());
  CHECK(sketch("chain:4").cables.size() == 3);
  CHECK(sketch("mesh:5").cables.size() == 10);
  CHECK(sketch("star:5").cables.size() == 4);
  CHECK(sketch("torus:4x4").cables.size() == 32);
  CHECK(sketch("torus:2x3x4").cables.size() == 12 + 24 + 24);
  CHECK(sketch("network:64").cables.empty());
  const Sketch levels = sketch("two-level:3x4");
  CHECK(levels.ranks == 12);
  CHECK(levels.host[3] == 0);
  CHECK(levels.host[4] == 1);
  CHECK(levels.cores == 4);
  CHECK(sketch("host:6").host == std::vector<int>(6, 0));
}

TEST_CASE("options change cables and costs") {
  const Sketch s = sketch("mesh:4,rate=100mbit,alpha=1.5ms,missing=1-0,extra=2-3,cores=3");
  CHECK(s.cables.size() == 6);
  CHECK(s.rate == Approx(0.0125));
  CHECK(s.alpha_ns == Approx(1.5e6));
  CHECK(s.cores == 3);
  CHECK(sketch("ring:4,k=3").cables.size() == 12);
  CHECK(sketch("ring:4,k=2,missing=0-1").cables.size() == 7);
  CHECK(sketch("ring:4,alpha=0us").alpha_ns == 0);
}

TEST_CASE("what is not understood is said") {
  for (const char* text : {"", "ring", "ring:", "ring:x", "ring:0", "ring:5000", "ring:2x2",
                           "two-level:4", "tree:4", "torus:65x65", "mesh:4096"}) {
    INFO(text);
    CHECK(error_of(text).find("topology") != std::string::npos);
  }
  CHECK(error_of("ring:4,missing=0-2").find("no cable 0-2") != std::string::npos);
  CHECK(error_of("ring:4,missing=0-4").find("0 to 3") != std::string::npos);
  CHECK(error_of("ring:4,rate=fast").find("100mbit") != std::string::npos);
  CHECK(error_of("ring:4,alpha=3").find("25us") != std::string::npos);
  CHECK(error_of("ring:4,k=0").find("k=0") != std::string::npos);
  CHECK(error_of("ring:4,colour=red").find("colour") != std::string::npos);
}
