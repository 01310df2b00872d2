// Closed-form costs against the simulator, and the simulator against arithmetic.
#include "schedule/simulate.h"
#include "unit/algorithms/group.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using algorithms::Algorithm;
using schedule::Collective;
using schedule::Simulation;

namespace {

schedule::Basis one_host(int n, int cores) {
  schedule::Basis basis = ranks(n);
  basis.host.assign(static_cast<size_t>(n), 0);
  basis.cores = cores;
  return basis;
}

schedule::Basis ring(int n, double rate) {
  schedule::Basis basis = ranks(n);
  for (int r = 0; r < n; r++) basis.cables.push_back({r, (r + 1) % n, rate});
  return basis;
}

schedule::Basis mesh(int n, double rate) {
  schedule::Basis basis = ranks(n);
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++) basis.cables.push_back({a, b, rate});
  return basis;
}

Simulation play(const Algorithm& a, const Collective& c, const schedule::Basis& basis,
                uint64_t count) {
  Simulation result;
  const Status s = schedule::simulate(make_all(a, c, basis), c, basis, count, 4, &result);
  INFO(a.name << ": " << s.text());
  REQUIRE(s.ok());
  return result;
}

// Of `count` elements of 4 bytes as a caller gives it.
uint64_t vector_bytes(const Collective& c, uint64_t count, const schedule::Basis& basis) {
  return count * 4 * static_cast<uint64_t>(schedule::vector_blocks(c.operation, basis.size));
}

// How far apart a formula and the simulator may be.
constexpr double kFactor = 2;

}  // namespace

TEST_CASE("closed forms agree with the simulator within a factor of two") {
  const std::vector<schedule::Basis> bases = {
      one_host(2, 2),  one_host(4, 2), one_host(7, 8), ring(4, 0.0125), ring(4, 5.0), ring(8, 1.0),
      mesh(4, 0.0125), mesh(4, 5.0),   ranks(4),       mesh(2, 5.0),    ranks(6)};
  for (size_t b = 0; b < bases.size(); b++)
    for (const Algorithm& a : algorithms::table())
      for (uint64_t count :
           {uint64_t{2}, uint64_t{1} << 10, uint64_t{1} << 16, uint64_t{1} << 23}) {
        const Collective c{a.operations.front(), false, false, 0};
        const double simulated = play(a, c, bases[b], count).ns;
        const double predicted = a.cost(c, vector_bytes(c, count, bases[b]), bases[b]).ns;
        INFO("basis " << b << ", " << a.name << ", " << count << " elements: predicted "
                      << predicted / 1000 << " us, simulated " << simulated / 1000 << " us");
        CHECK(predicted < simulated * kFactor);
        CHECK(simulated < predicted * kFactor);
      }
}

TEST_CASE("steps are the longest chain of messages") {
  for (int n : {2, 3, 4, 7, 8, 16})
    for (const Algorithm& a : algorithms::table()) {
      const Collective c{a.operations.front(), false, false, 0};
      INFO(a.name << ", " << n << " ranks");
      const int simulated = play(a, c, ranks(n), 1000).steps;
      const int predicted = a.cost(c, 4000, ranks(n)).steps;
      // Extra ranks that come in late may meet partners that are late by themselves.
      REQUIRE(simulated <= predicted);
      REQUIRE(predicted - simulated <= ((n & (n - 1)) == 0 ? 0 : 1));
    }
}

TEST_CASE("slow cables are used to their lower bound") {
  // Vector bytes over bytes per ns of a cable and direction; limits: see the plan of each
  // algorithm.
  const uint64_t count = uint64_t{1} << 22;
  const double rate = 0.125, whole = static_cast<double>(count) * 4 / rate;
  const auto share = [&](const char* name, const schedule::Basis& basis, tbcclOperation_t op) {
    return play(*algorithms::find(name), {op, false, false, 0}, basis, count).ns / whole;
  };
  REQUIRE(share("ring", ring(4, rate), tbcclOpAllReduce) < 0.75 * 1.05);
  REQUIRE(share("halving", ring(4, rate), tbcclOpAllReduce) < 0.75 * 1.05);
  REQUIRE(share("twostep", mesh(4, rate), tbcclOpAllReduce) < 0.5 * 1.05);
  REQUIRE(share("chain", ring(4, rate), tbcclOpBroadcast) < 0.5 * 1.1);
  REQUIRE(share("ring", ring(4, rate), tbcclOpAllReduce) > 0.75);
  REQUIRE(share("twostep", mesh(4, rate), tbcclOpAllReduce) > 0.5);
}

TEST_CASE("one message takes alpha, a vector its wire time") {
  schedule::Basis basis = mesh(2, 1.0);
  const Collective c{tbcclOpBroadcast, true, false, 0};
  const Algorithm& tree = *algorithms::find("tree");
  REQUIRE(play(tree, c, basis, 0).ns == Approx(basis.cable.alpha));
  REQUIRE(play(tree, c, basis, 1'000'000).ns > 4e6);
  REQUIRE(play(tree, c, basis, 1'000'000).ns < 4e6 * 1.05);
}

TEST_CASE("an all-reduce of a thousand ranks is simulated") {
  const Collective c{tbcclOpAllReduce, true, false, 0};
  const schedule::Basis basis = one_host(1024, 1024);
  const Simulation s = play(*algorithms::find("doubling"), c, basis, 1 << 16);
  REQUIRE(s.steps == 10);
  REQUIRE(s.finish.size() == 1024);
  REQUIRE(play(*algorithms::find("halving"), c, basis, 1 << 16).steps == 20);
}

TEST_CASE("a schedule that gets stuck is reported, not waited for") {
  const Collective c{tbcclOpAllReduce, false, false, 0};
  auto all = make_all(*algorithms::find("doubling"), c, ranks(4));
  all[0].phases[0].deps = {{1, schedule::DepKind::kDone, schedule::kAllIterations}};
  all[1].phases[0].deps = {{1, schedule::DepKind::kDone, schedule::kAllIterations}};
  Simulation result;
  REQUIRE_FALSE(schedule::simulate(all, c, ranks(4), 100, 4, &result).ok());
}
