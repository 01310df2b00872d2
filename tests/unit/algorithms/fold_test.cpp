// Simulations that play one rank of each class, against those that play all of them.
#include "schedule/fold.h"

#include "schedule/simulate.h"
#include "unit/algorithms/group.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using schedule::Basis;
using schedule::Collective;

namespace {

Basis hosts(int count, int each) {
  Basis basis = ranks(count * each);
  basis.cores = 2;
  for (int r = 0; r < basis.size; r++) basis.host.push_back(r / each);
  return basis;
}

Basis ring(int n) {
  Basis basis = ranks(n);
  for (int r = 0; r < n; r++) basis.cables.push_back({r, (r + 1) % n, 1.0});
  basis.index_cables();
  return basis;
}

schedule::Simulation play(const algorithms::Algorithm& a, const Basis& basis, uint64_t count,
                          int64_t fold_above) {
  const Collective c{a.operations.front(), false, false, 0};
  schedule::SimulateOptions options;
  options.fold_above = fold_above;
  schedule::Simulation result;
  const Status s = schedule::simulate(make_all(a, c, basis), c, basis, count, 4, &result, options);
  INFO(a.name << ": " << s.text());
  REQUIRE(s.ok());
  return result;
}

}  // namespace

TEST_CASE("one rank of each class tells what all of them would") {
  const std::vector<Basis> bases = {ranks(16),   hosts(1, 16), hosts(4, 4),
                                    hosts(6, 2), ring(16),     ring(12)};
  for (size_t b = 0; b < bases.size(); b++)
    for (const algorithms::Algorithm& a : algorithms::table())
      for (uint64_t count : {uint64_t{16}, uint64_t{1} << 16, uint64_t{1} << 20}) {
        const auto all = play(a, bases[b], count, INT64_MAX);
        const auto few = play(a, bases[b], count, 0);
        INFO(a.name << " on basis " << b << ": " << few.actors << " of " << all.actors
                    << " ranks played");
        REQUIRE(all.actors == bases[b].size);
        REQUIRE(few.actors <= all.actors);
        REQUIRE(few.messages == all.messages);
        REQUIRE(few.finish.size() == all.finish.size());
        // Ranks that are played together stay in step; those of a whole group get in each other's
        // way where they share a network or a processor, or work while another's message is under
        // way.
        CHECK(few.ns <= all.ns * 1.25);
        CHECK(few.ns >= all.ns * 0.65);
        CHECK(few.steps == all.steps);
      }
}

TEST_CASE("ranks on a ring are all alike, ranks of hosts by their place") {
  const auto actors = [](const char* name, const Basis& basis) {
    return play(*algorithms::find(name), basis, 1 << 16, 0).actors;
  };
  REQUIRE(actors("ring", ring(16)) == 1);
  REQUIRE(actors("twostep", ranks(16)) == 1);
  REQUIRE(actors("ring", hosts(4, 4)) == 4);
  Basis open = ring(16);
  open.cables.pop_back();
  open.index_cables();
  REQUIRE(actors("ring", open) == 16);
}

TEST_CASE("thousands of ranks are played, or refused") {
  REQUIRE(play(*algorithms::find("ring"), ring(4096), 1 << 22, 200'000).actors == 1);
  REQUIRE(play(*algorithms::find("doubling"), ranks(4096), 1 << 10, 200'000).steps == 12);
  Basis open = ring(1024);
  open.cables.pop_back();
  open.index_cables();
  const Collective c{tbcclOpAllReduce, false, false, 0};
  schedule::Simulation result;
  const Status s = schedule::simulate(make_all(*algorithms::find("ring"), c, open), c, open,
                                      1 << 20, 4, &result);
  REQUIRE(s.code() == tbcclInvalidArgument);
  REQUIRE(s.text().find("messages") != std::string::npos);
}
