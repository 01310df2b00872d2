#include "algorithms/order.h"

#include <set>

#include "unit/algorithms/group.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using algorithms::Corners;
using algorithms::ring_order;

TEST_CASE("without cables, ranks of a host are neighbours") {
  schedule::Basis basis = ranks(6);
  REQUIRE(ring_order(basis).order == std::vector<int>{0, 1, 2, 3, 4, 5});
  basis.host = {7, 3, 7, 3, 7, 3};
  REQUIRE(ring_order(basis).order == std::vector<int>{1, 3, 5, 0, 2, 4});
  REQUIRE(ring_order(basis).closed);
}

TEST_CASE("the ring follows cables") {
  schedule::Basis basis = ranks(4);
  basis.cables = {{0, 2, 0}, {2, 1, 0}, {1, 3, 0}, {3, 0, 0}};
  REQUIRE(ring_order(basis).order == std::vector<int>{0, 2, 1, 3});
  REQUIRE(ring_order(basis).closed);
}

TEST_CASE("the fastest closed ring is taken") {
  schedule::Basis basis = ranks(4);  // a mesh with one slow cable in the natural ring
  for (int a = 0; a < 4; a++)
    for (int b = a + 1; b < 4; b++) basis.cables.push_back({a, b, a == 0 && b == 1 ? 1.0 : 5.0});
  const auto ring = ring_order(basis);
  REQUIRE(ring.closed);
  for (size_t p = 0; p < 4; p++) REQUIRE(basis.rate(ring.order[p], ring.order[(p + 1) % 4]) == 5.0);
}

TEST_CASE("a line is followed from end to end, a star falls back to rank order") {
  schedule::Basis line = ranks(4);
  line.cables = {{2, 0, 0}, {0, 3, 0}, {3, 1, 0}};
  REQUIRE(ring_order(line).order == std::vector<int>{1, 3, 0, 2});
  REQUIRE_FALSE(ring_order(line).closed);
  schedule::Basis star = ranks(5);
  for (int r = 1; r < 5; r++) star.cables.push_back({0, r, 0});
  REQUIRE(ring_order(star).order == std::vector<int>{0, 1, 2, 3, 4});
}

TEST_CASE("a large mesh is ordered at once") {
  schedule::Basis basis = ranks(36);
  for (int a = 0; a < 36; a++)
    for (int b = a + 1; b < 36; b++) basis.cables.push_back({a, b, 0});
  const auto order = ring_order(basis).order;
  REQUIRE(std::set<int>(order.begin(), order.end()).size() == 36);
}

TEST_CASE("corners stand for consecutive ranks in rank order") {
  for (int n = 2; n <= 70; n++) {
    const Corners corners(n);
    REQUIRE(corners.count() <= n);
    REQUIRE(2 * corners.count() > n);
    int next = 0;
    for (int c = 0; c < corners.count(); c++) {
      const int rank = corners.rank(c);
      REQUIRE(rank == next);
      REQUIRE(corners.corner(rank) == c);
      next += corners.has_extra(rank) ? 2 : 1;
    }
    REQUIRE(next == n);
  }
}
