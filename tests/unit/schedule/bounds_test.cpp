#include "schedule/bounds.h"

#include <random>

#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::schedule;

namespace {

Basis cabled(int n, const std::vector<Cable>& cables) {
  Basis basis;
  basis.size = n;
  basis.cables = cables;
  return basis;
}

std::vector<Cable> ring(int n, double rate = 1) {
  std::vector<Cable> all;
  for (int r = 0; r < n; r++) all.push_back({r, (r + 1) % n, rate});
  return all;
}

std::vector<Cable> mesh(int n) {
  std::vector<Cable> all;
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++) all.push_back({a, b, 1});
  return all;
}

double share(const char* operation, const Basis& basis) {
  double worst = 0;  // over the roots
  for (int root = 0; root < basis.size; root++) {
    const Bound bound = lower_bound(operation, root, basis);
    REQUIRE(bound.known);
    worst = std::max(worst, bound.ns_per_byte);
  }
  return worst;
}

void check(const Basis& basis, double all_reduce, double all_gather, double broadcast) {
  CHECK(share("allreduce", basis) == Approx(all_reduce));
  CHECK(share("allgather", basis) == Approx(all_gather));
  CHECK(share("reducescatter", basis) == Approx(all_gather));
  CHECK(share("broadcast", basis) == Approx(broadcast));
  CHECK(share("reduce", basis) == Approx(broadcast));
}

// Over all partitions and all sets, by brute force.
double worst_partition(const Basis& basis) {
  std::vector<int> part(static_cast<size_t>(basis.size), 0);
  double worst = 0;
  const auto visit = [&](auto&& self, int rank, int parts) -> void {
    if (rank == basis.size) {
      double cross = 0;
      for (const Cable& c : basis.cables)
        if (part[static_cast<size_t>(c.a)] != part[static_cast<size_t>(c.b)]) cross += c.rate;
      if (parts > 1) worst = std::max(worst, (parts - 1) / cross);
      return;
    }
    for (int p = 0; p <= parts; p++) {
      part[static_cast<size_t>(rank)] = p;
      self(self, rank + 1, std::max(parts, p + 1));
    }
  };
  visit(visit, 0, 0);
  return worst;
}

double worst_set(const Basis& basis) {
  double worst = 0;
  for (unsigned set = 1; set + 1 < 1u << basis.size; set++) {
    double out = 0;
    for (const Cable& c : basis.cables)
      if ((set >> c.a & 1) != (set >> c.b & 1)) out += c.rate;
    worst = std::max(worst, __builtin_popcount(set) / static_cast<double>(basis.size) / out);
  }
  return worst;
}

}  // namespace

TEST_CASE("four ranks: ring, mesh, five ports, a cable missing, a chain") {
  check(cabled(4, ring(4)), 0.75, 0.375, 0.5);
  check(cabled(4, mesh(4)), 0.5, 0.25, 1.0 / 3);
  auto five = mesh(4);
  for (const Cable& c : ring(4)) five.push_back(c);
  check(cabled(4, five), 0.30, 0.15, 0.20);
  auto missing = mesh(4);
  missing.erase(missing.begin());
  check(cabled(4, missing), 0.60, 0.375, 0.50);
  auto chain = ring(4);
  chain.pop_back();
  check(cabled(4, chain), 1.0, 0.75, 1.0);
}

TEST_CASE("uneven cablings agree with a look at every set and partition") {
  std::mt19937 random(11);
  for (int round = 0; round < 60; round++) {
    const int n = 3 + static_cast<int>(random() % 5);
    auto cables = ring(n, 1);
    for (Cable& c : cables) c.rate = 1 + static_cast<double>(random() % 4);
    if (random() % 2 == 0) cables.pop_back();
    for (unsigned k = random() % 6; k > 0; k--) {
      const int a = static_cast<int>(random() % static_cast<unsigned>(n));
      const int b = static_cast<int>(random() % static_cast<unsigned>(n));
      if (a != b) cables.push_back({a, b, 0.5 + static_cast<double>(random() % 5)});
    }
    const Basis basis = cabled(n, cables);
    INFO("round " << round << ", " << n << " ranks, " << cables.size() << " cables");
    CHECK(share("allreduce", basis) == Approx(worst_partition(basis)));
    CHECK(share("allgather", basis) == Approx(worst_set(basis)));
  }
}

TEST_CASE("a network has two ends, and hosts have channels") {
  Basis basis;
  basis.size = 8;
  basis.network.rate = 2;
  REQUIRE(share("allreduce", basis) == Approx(2.0 * 7 / 8 / 2));
  REQUIRE(share("allgather", basis) == Approx(7.0 / 8 / 2));
  REQUIRE(share("broadcast", basis) == Approx(1.0 / 2));
  REQUIRE(share("alltoall", basis) >= 7.0 / 8 / 2);
  REQUIRE(share("gather", basis) == Approx(7.0 / 8 / 2));
  basis.host.assign(8, 0);
  basis.local.rate = 1;  // 28 channels
  REQUIRE(share("allreduce", basis) == Approx(7.0 / 28));
}

TEST_CASE("large groups have bounds of simple sets, in no time") {
  const Bound ring_bound = lower_bound("allreduce", 0, cabled(4096, ring(4096)));
  REQUIRE(ring_bound.known);
  REQUIRE_FALSE(ring_bound.exact);
  REQUIRE(ring_bound.ns_per_byte == Approx(4095.0 / 4096));
  REQUIRE(lower_bound("allgather", 0, cabled(4096, ring(4096))).ns_per_byte ==
          Approx(4095.0 / 4096 / 2));
}

TEST_CASE("where nothing is known, nothing is said") {
  REQUIRE_FALSE(lower_bound("barrier", 0, cabled(4, ring(4))).known);
  REQUIRE_FALSE(lower_bound("allreduce", 0, cabled(4, {{0, 1, 1}})).known);
  REQUIRE_FALSE(lower_bound("allreduce", 0, cabled(1, {})).known);
  REQUIRE_FALSE(lower_bound("broadcast", 9, cabled(4, ring(4))).known);
}
