// Every algorithm, proven by the verifier.
#include "algorithms/order.h"
#include "unit/algorithms/group.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using algorithms::Algorithm;
using schedule::Collective;

namespace {

void check(const Algorithm& algorithm, const Collective& collective, const schedule::Basis& basis) {
  const Status s = schedule::verify(make_all(algorithm, collective, basis), collective);
  INFO(algorithm.name << ", " << basis.size << " ranks, root " << collective.root << ", in place "
                      << collective.in_place << ", scale " << collective.scale);
  INFO(s.text());
  REQUIRE(s.ok());
}

void check_reductions(int n) {
  for (const Algorithm& algorithm : algorithms::table())
    for (tbcclOperation_t operation : {tbcclOpAllReduce, tbcclOpBarrier})
      for (bool in_place : {false, true})
        for (bool scale : {false, true})
          if (algorithm.serves(operation))
            check(algorithm, {operation, in_place, scale, 0}, ranks(n));
}

void check_broadcasts(int n, int root_stride) {
  for (const Algorithm& algorithm : algorithms::table())
    for (bool in_place : {false, true})
      for (int root = 0; root < n && algorithm.serves(tbcclOpBroadcast); root += root_stride)
        check(algorithm, {tbcclOpBroadcast, in_place, false, root}, ranks(n));
}

}  // namespace

TEST_CASE("all reductions are right for every number of ranks up to 33") {
  for (int n = 1; n <= 33; n++) check_reductions(n);
}

TEST_CASE("all reductions are right for larger groups") {
  for (int n : {64, 100}) check_reductions(n);
}

TEST_CASE("all broadcasts are right from every root up to 33 ranks") {
  for (int n = 1; n <= 33; n++) check_broadcasts(n, 1);
}

TEST_CASE("all broadcasts are right for larger groups") {
  for (int n : {64, 100, 257}) check_broadcasts(n, n / 3);
}

TEST_CASE("ranks in place and others may be mixed") {
  for (const Algorithm& algorithm : algorithms::table())
    for (int n : {2, 3, 4, 5, 8, 13, 17, 18})
      for (int pattern = 1; pattern < 4; pattern++) {
        const tbcclOperation_t operation = algorithm.operations.front();
        std::vector<Collective> each;
        std::vector<schedule::Schedule> all;
        for (int r = 0; r < n; r++) {
          each.push_back({operation, (r * pattern) % 3 == 0, false, 0});
          all.push_back(algorithm.make(each.back(), r, n, ranks(n)));
        }
        const Status s = schedule::verify(all, each);
        INFO(algorithm.name << ", " << n << " ranks: " << s.text());
        REQUIRE(s.ok());
      }
}

TEST_CASE("algorithms that follow cables are right on any cabling") {
  std::vector<schedule::Basis> bases;
  schedule::Basis ring = ranks(4);  // 0 2 1 3
  ring.cables = {{0, 2, 0}, {2, 1, 0}, {1, 3, 0}, {3, 0, 0}};
  schedule::Basis line = ranks(5);  // 3 0 4 1 2
  line.cables = {{3, 0, 0}, {0, 4, 0}, {4, 1, 0}, {1, 2, 0}};
  schedule::Basis star = ranks(6);
  for (int r = 1; r < 6; r++) star.cables.push_back({0, r, 0});
  schedule::Basis hosts = ranks(8);
  hosts.host = {0, 1, 0, 1, 2, 2, 0, 1};
  for (const auto& basis : {ring, line, star, hosts})
    for (const Algorithm& algorithm : algorithms::table())
      for (int root = 0; root < basis.size; root++)
        check(algorithm, {algorithm.operations.front(), root % 2 == 1, false, root}, basis);
}
