// Trees and chains in every operation that they serve: formulas against the simulator, their
// shapes, and what they are for.
#include <algorithm>

#include "algorithms/tree.h"
#include "schedule/simulate.h"
#include "unit/algorithms/group.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using algorithms::Knomial;
using schedule::Collective;

namespace {

struct Case {
  const char* algorithm;
  tbcclOperation_t operation;
};

constexpr Case kCases[] = {{"chain", tbcclOpBroadcast},
                           {"chain", tbcclOpReduce},
                           {"tree", tbcclOpBroadcast},
                           {"tree", tbcclOpReduce},
                           {"tree", tbcclOpGather},
                           {"tree", tbcclOpScatter},
                           {"scatter_gather", tbcclOpBroadcast},
                           {"scatter_gather", tbcclOpReduce},
                           {"double_tree", tbcclOpAllReduce},
                           {"double_tree", tbcclOpBroadcast},
                           {"double_tree", tbcclOpReduce}};

schedule::Basis hosts(int n, int each, int cores) {
  schedule::Basis basis = ranks(n);
  for (int r = 0; r < n; r++) basis.host.push_back(r / each);
  basis.cores = cores;
  return basis;
}

schedule::Basis ring(int n, double rate) {
  schedule::Basis basis = ranks(n);
  for (int r = 0; r < n; r++) basis.cables.push_back({r, (r + 1) % n, rate});
  return basis;
}

schedule::Basis line(int n, double rate) {
  schedule::Basis basis = ring(n, rate);
  basis.cables.pop_back();
  return basis;
}

schedule::Basis mesh(int n, double rate) {
  schedule::Basis basis = ranks(n);
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++) basis.cables.push_back({a, b, rate});
  return basis;
}

schedule::Simulation play(const Case& what, int root, const schedule::Basis& basis,
                          uint64_t count) {
  const Collective c{what.operation, false, false, root};
  const auto all = make_all(*algorithms::find(what.algorithm), c, basis);
  schedule::Simulation result;
  const Status s = schedule::simulate(all, c, basis, count, 4, &result);
  INFO(what.algorithm << ": " << s.text());
  REQUIRE(s.ok());
  return result;
}

algorithms::Cost price(const Case& what, int root, const schedule::Basis& basis, uint64_t count) {
  const auto blocks = static_cast<uint64_t>(schedule::vector_blocks(what.operation, basis.size));
  return algorithms::find(what.algorithm)
      ->cost({what.operation, false, false, root}, count * 4 * blocks, basis);
}

// How far apart a formula and the simulator may be.
constexpr double kFactor = 2;

}  // namespace

TEST_CASE("closed forms of trees and chains agree with the simulator within a factor of two") {
  const std::vector<schedule::Basis> bases = {
      hosts(2, 2, 2), hosts(4, 4, 2),  hosts(7, 7, 8),  ring(4, 0.0125), ring(4, 5.0),
      ring(8, 1.0),   mesh(4, 0.0125), mesh(4, 5.0),    ranks(4),        mesh(2, 5.0),
      ranks(6),       ranks(13),       hosts(12, 4, 4), line(5, 1.0),    mesh(8, 1.0)};
  for (size_t b = 0; b < bases.size(); b++)
    for (const Case& what : kCases)
      for (int root : {0, bases[b].size / 2, bases[b].size - 1})
        for (uint64_t count : {uint64_t{2}, uint64_t{1} << 10, uint64_t{1} << 14, uint64_t{1} << 16,
                               uint64_t{1} << 21}) {
          const double simulated = play(what, root, bases[b], count).ns;
          const double predicted = price(what, root, bases[b], count).ns;
          INFO("basis " << b << ", " << what.algorithm << ", operation " << what.operation
                        << ", root " << root << ", " << count << " elements: predicted "
                        << predicted / 1000 << " us, simulated " << simulated / 1000 << " us");
          CHECK(predicted < simulated * kFactor);
          CHECK(simulated < predicted * kFactor);
        }
}

TEST_CASE("trees and chains take the steps that their formulas say") {
  for (int n : {2, 3, 4, 5, 7, 8, 13, 16, 27, 33})
    for (const Case& what : kCases)
      for (int root : {0, n - 1}) {
        INFO(what.algorithm << ", operation " << what.operation << ", " << n << " ranks, root "
                            << root);
        REQUIRE(play(what, root, ranks(n), 1000).steps == price(what, root, ranks(n), 1000).steps);
      }
}

TEST_CASE("a k-nomial tree reaches every rank once") {
  for (int radix : {2, 3, 4, 7})
    for (int n : {1, 2, 3, 4, 5, 8, 9, 16, 27, 28, 100, 1000}) {
      const Knomial tree(n, radix);
      std::vector<int> subtree(static_cast<size_t>(n), 1), hops(static_cast<size_t>(n), 0);
      for (int v = 0; v < n; v++)
        for (int child : tree.children(v)) {
          REQUIRE(child > v);
          REQUIRE(child < v + tree.subtree(v));
          REQUIRE(tree.parent(child) == v);
          REQUIRE(hops[static_cast<size_t>(child)] == 0);
          hops[static_cast<size_t>(child)] = hops[static_cast<size_t>(v)] + 1;
        }
      for (int v = n - 1; v > 0; v--) {
        REQUIRE(hops[static_cast<size_t>(v)] > 0);
        REQUIRE(tree.subtree(v) == subtree[static_cast<size_t>(v)]);
        subtree[static_cast<size_t>(tree.parent(v))] += subtree[static_cast<size_t>(v)];
      }
      REQUIRE(subtree[0] == n);
      REQUIRE(tree.depth() == *std::max_element(hops.begin(), hops.end()));
      REQUIRE(hops[static_cast<size_t>(tree.deepest())] == tree.depth());
    }
}

TEST_CASE("the radix follows the basis") {
  // Messages that cost no processor time: as few steps as there can be.
  schedule::Basis basis = ranks(64);
  basis.cpu_message = 0;
  REQUIRE(algorithms::knomial_tree(basis).depth() == 2);
  // Messages that cost nothing else: fewer of them, one after the other, at the root.
  basis.cpu_message = 5'000;
  basis.network.alpha = 2 * basis.cpu_message;
  REQUIRE(algorithms::knomial_tree(basis).radix() == 3);
  REQUIRE(algorithms::knomial_tree(basis, 2).depth() == 6);
  for (int n : {1, 2, 3, 4}) REQUIRE(algorithms::knomial_tree(ranks(n)).depth() == n / 2);
}

TEST_CASE("a chain reduces at the rate of the cables") {
  const uint64_t count = uint64_t{1} << 22;
  const double rate = 0.125, whole = static_cast<double>(count) * 4 / rate;
  REQUIRE(play({"chain", tbcclOpReduce}, 1, ring(4, rate), count).ns < 0.5 * 1.1 * whole);
  REQUIRE(play({"chain", tbcclOpReduce}, 2, line(5, rate), count).ns < 1.05 * whole);
}

TEST_CASE("scatter and all-gather use every cable of a mesh") {
  const uint64_t count = uint64_t{1} << 22;
  const double rate = 0.125, whole = static_cast<double>(count) * 4 / rate;
  for (tbcclOperation_t operation : {tbcclOpBroadcast, tbcclOpReduce})
    for (int n : {3, 4, 5, 8})
      for (int root : {0, n - 1}) {
        const Case what{"scatter_gather", operation};
        const double bound = whole / (n - 1);
        REQUIRE(play(what, root, mesh(n, rate), count).ns < bound * 1.05);
        REQUIRE(play(what, root, mesh(n, rate), count).ns > bound);
      }
}
