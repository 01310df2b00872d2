#include "perf/result.h"

#include "unit/catch.h"

using namespace tbccl::perf;

TEST_CASE("Figures of iterations leave the skipped ones out") {
  Iterations it;
  it.skipped = 1;
  it.times = {1000};
  for (int i = 100; i >= 1; --i) it.times.push_back(i);
  summarize(&it);
  REQUIRE(it.least == 1);
  REQUIRE(it.most == 100);
  REQUIRE(it.average == Approx(50.5));
  REQUIRE(it.p50 == 50);
  REQUIRE(it.p95 == 95);
  REQUIRE(it.p99 == 99);
  REQUIRE(it.deviation == Approx(28.866).epsilon(0.001));
}

TEST_CASE("A single iteration is all of its figures") {
  Iterations it;
  it.times = {7};
  summarize(&it);
  REQUIRE(it.least == 7);
  REQUIRE(it.p50 == 7);
  REQUIRE(it.p99 == 7);
  REQUIRE(it.deviation == 0);
}
