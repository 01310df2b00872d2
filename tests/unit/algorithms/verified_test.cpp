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
