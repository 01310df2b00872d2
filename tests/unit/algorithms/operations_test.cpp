// Every algorithm of the operations beyond all-reduce, barrier and broadcast, proven by the
// verifier.
#include <algorithm>
#include <set>

#include "unit/algorithms/group.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using algorithms::Algorithm;
using schedule::Collective;

namespace {

constexpr tbcclOperation_t kOperations[] = {
    tbcclOpReduce,   tbcclOpAllGather, tbcclOpAllGatherV, tbcclOpReduceScatter,
    tbcclOpAllToAll, tbcclOpAllToAllV, tbcclOpGather,     tbcclOpReduceScatterV,
    tbcclOpGatherV,  tbcclOpScatter,   tbcclOpScatterV,   tbcclOpScan,
    tbcclOpExScan};

bool has_root(tbcclOperation_t operation) {
  const tbcclOperation_t o = schedule::uniform(operation);
  return o == tbcclOpReduce || o == tbcclOpGather || o == tbcclOpScatter;
}

// Which ranks are in place: none, all, or some.
void check(const Algorithm& algorithm, tbcclOperation_t operation, int root, bool scale, int mix,
           const schedule::Basis& basis) {
  std::vector<Collective> each;
  std::vector<schedule::Schedule> all;
  for (int r = 0; r < basis.size; r++) {
    each.push_back({operation, (mix >> r % 5 & 1) != 0, scale, root});
    all.push_back(algorithm.make(each.back(), r, basis.size, basis));
  }
  const Status s = schedule::verify(all, each);
  INFO(algorithm.name << ", operation " << operation << ", " << basis.size << " ranks, root "
                      << root << ", scale " << scale << ", in place " << mix);
  INFO(s.text());
  REQUIRE(s.ok());
}

void check_all(const schedule::Basis& basis, const std::set<int>& roots) {
  for (const Algorithm& algorithm : algorithms::table())
    for (tbcclOperation_t operation : kOperations) {
      if (!algorithm.serves(operation)) continue;
      for (int root : has_root(operation) ? roots : std::set<int>{0})
        for (bool scale : {false, true})
          for (int mix : {0, 31, 11})
            if (!scale || schedule::reduces(operation))
              check(algorithm, operation, root, scale, mix, basis);
    }
}

}  // namespace

TEST_CASE("every operation has an algorithm") {
  for (tbcclOperation_t operation : kOperations)
    REQUIRE(std::any_of(algorithms::table().begin(), algorithms::table().end(),
                        [&](const Algorithm& a) { return a.serves(operation); }));
}

TEST_CASE("all operations are right for every number of ranks up to 33") {
  for (int n = 1; n <= 33; n++) check_all(ranks(n), {0, n / 3, n / 2, n - 1});
}

TEST_CASE("all operations are right for a larger group") { check_all(ranks(40), {23}); }

TEST_CASE("all operations are right on any cabling") {
  schedule::Basis ring = ranks(4);  // 0 2 1 3
  ring.cables = {{0, 2, 0}, {2, 1, 0}, {1, 3, 0}, {3, 0, 0}};
  schedule::Basis line = ranks(5);  // 3 0 4 1 2
  line.cables = {{3, 0, 0}, {0, 4, 0}, {4, 1, 0}, {1, 2, 0}};
  schedule::Basis hosts = ranks(8);
  hosts.host = {0, 1, 0, 1, 2, 2, 0, 1};
  for (const auto& basis : {ring, line, hosts}) {
    std::set<int> roots;
    for (int r = 0; r < basis.size; r++) roots.insert(r);
    check_all(basis, roots);
  }
}

TEST_CASE("no dependency of a reduction, scan or exchange in place can be left out") {
  for (const Algorithm& algorithm : algorithms::table())
    for (tbcclOperation_t operation : kOperations) {
      if (!algorithm.serves(operation)) continue;
      for (int n : {3, 4, 8}) {
        const Collective c{operation, true, false, 0};
        const auto good = make_all(algorithm, c, ranks(n));
        for (size_t rank = 0; rank < good.size(); rank++)
          for (size_t phase = 0; phase < good[rank].phases.size(); phase++)
            for (size_t dep = 0; dep < good[rank].phases[phase].deps.size(); dep++) {
              auto bad = good;
              auto& deps = bad[rank].phases[phase].deps;
              deps.erase(deps.begin() + static_cast<std::ptrdiff_t>(dep));
              INFO(algorithm.name << ", operation " << operation << ", n " << n << ", rank " << rank
                                  << ", phase " << phase << ", dependency " << dep);
              REQUIRE_FALSE(schedule::verify(bad, c).ok());
            }
      }
    }
}

TEST_CASE("blocks that are received as others are found") {
  for (tbcclOperation_t operation : {tbcclOpAllGather, tbcclOpAllGatherV, tbcclOpAllToAll,
                                     tbcclOpAllToAllV, tbcclOpGather, tbcclOpScatter}) {
    const Collective c{operation, false, false, 1};
    const auto good = make_all(*algorithms::find("direct"), c, ranks(4));
    for (size_t phase = 0; phase < good[1].phases.size(); phase++) {
      auto bad = good;
      auto& p = bad[1].phases[phase];
      const int32_t first = p.piece.at(0);
      p.repeat = 1;
      p.piece = {first % 4 == 3 ? first - 1 : first + 1, 0, 0, 0};
      INFO("operation " << operation << ", phase " << phase);
      REQUIRE_FALSE(schedule::verify(bad, c).ok());
    }
  }
}
