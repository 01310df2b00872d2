#include "algorithms/algorithms.h"

#include <algorithm>
#include <array>
#include <set>

namespace tbccl::algorithms {

namespace {

constexpr tbcclOperation_t kDoubling[] = {tbcclOpAllReduce, tbcclOpBarrier, tbcclOpAllGather,
                                          tbcclOpScan, tbcclOpExScan};
constexpr tbcclOperation_t kAll[] = {
    tbcclOpAllReduce, tbcclOpBarrier,    tbcclOpBroadcast,     tbcclOpReduce,
    tbcclOpAllGather, tbcclOpAllGatherV, tbcclOpReduceScatter, tbcclOpReduceScatterV,
    tbcclOpAllToAll,  tbcclOpAllToAllV,  tbcclOpGather,        tbcclOpGatherV,
    tbcclOpScatter,   tbcclOpScatterV,   tbcclOpScan,          tbcclOpExScan};
constexpr tbcclOperation_t kReduce[] = {tbcclOpAllReduce};
constexpr tbcclOperation_t kTree[] = {tbcclOpBroadcast, tbcclOpReduce, tbcclOpGather,
                                      tbcclOpScatter};
constexpr tbcclOperation_t kChain[] = {tbcclOpBroadcast, tbcclOpReduce, tbcclOpScan, tbcclOpExScan};

constexpr tbcclOperation_t kScatterGather[] = {tbcclOpBroadcast, tbcclOpReduce};
constexpr tbcclOperation_t kDoubleTree[] = {tbcclOpAllReduce, tbcclOpBroadcast, tbcclOpReduce};

constexpr tbcclOperation_t kRing[] = {tbcclOpAllReduce, tbcclOpAllGather, tbcclOpAllGatherV,
                                      tbcclOpReduceScatter, tbcclOpReduceScatterV};
constexpr tbcclOperation_t kHalving[] = {tbcclOpAllReduce, tbcclOpReduceScatter};
constexpr tbcclOperation_t kPairwise[] = {tbcclOpAllToAll, tbcclOpAllToAllV};
constexpr tbcclOperation_t kBruck[] = {tbcclOpAllToAll, tbcclOpAllGather};

constexpr tbcclOperation_t kCube[] = {tbcclOpAllReduce, tbcclOpBarrier};
constexpr tbcclOperation_t kRouted[] = {tbcclOpGather, tbcclOpScatter, tbcclOpAllToAll};
constexpr tbcclOperation_t kTrees[] = {
    tbcclOpAllReduce, tbcclOpBarrier,    tbcclOpBroadcast,     tbcclOpReduce,
    tbcclOpAllGather, tbcclOpAllGatherV, tbcclOpReduceScatter, tbcclOpReduceScatterV};

constexpr std::array kTable = {
    Algorithm{"direct", kAll, true, true, true, make_direct, cost_direct},
    Algorithm{"halving", kHalving, false, false, false, make_halving, cost_halving},
    Algorithm{"twostep", kReduce, true, true, true, make_twostep, cost_twostep},
    Algorithm{"doubling", kDoubling, true, false, false, make_doubling, cost_doubling},
    Algorithm{"cube", kCube, false, false, false, make_cube, cost_cube, Suits::kCables},
    Algorithm{"ring", kRing, false, false, false, make_ring, cost_ring},
    Algorithm{"tree", kTree, false, false, false, make_tree, cost_tree},
    Algorithm{"chain", kChain, false, false, false, make_chain, cost_chain},
    Algorithm{"scatter_gather", kScatterGather, false, false, false, make_scatter_gather,
              cost_scatter_gather},
    Algorithm{"double_tree", kDoubleTree, false, false, false, make_double_tree, cost_double_tree},
    Algorithm{"pairwise", kPairwise, true, false, true, make_pairwise, cost_pairwise},
    Algorithm{"bruck", kBruck, true, false, true, make_bruck, cost_bruck},
    Algorithm{"spanning", kTrees, false, false, false, make_spanning, cost_spanning,
              Suits::kCables},
    Algorithm{"shallow", kTrees, false, false, false, make_shallow, cost_shallow, Suits::kCables},
    Algorithm{"hierarchical", kTrees, false, false, false, make_hierarchical, cost_hierarchical,
              Suits::kHosts},
    Algorithm{"routed", kRouted, false, false, false, make_routed, cost_routed, Suits::kCables},
};

}  // namespace

bool Algorithm::serves(tbcclOperation_t operation) const {
  return std::find(operations.begin(), operations.end(), operation) != operations.end();
}

bool Algorithm::possible(const schedule::Collective& collective,
                         const schedule::Basis& basis) const {
  return serves(collective.operation) && collective.root >= 0 && collective.root < basis.size;
}

bool Algorithm::keeps_rank_order(tbcclOperation_t operation) const {
  return rank_order || operation == tbcclOpScan || operation == tbcclOpExScan;
}

bool Algorithm::suited(const schedule::Basis& basis) const {
  switch (suits) {
    case Suits::kAnywhere:
      return true;
    case Suits::kCables:
      return !basis.cables.empty();
    case Suits::kHosts:
      break;
  }
  const std::set<int32_t> hosts(basis.host.begin(), basis.host.end());
  return hosts.size() > 1 && hosts.size() < basis.host.size();
}

std::span<const Algorithm> table() { return kTable; }

const Algorithm* find(std::string_view name) {
  for (const Algorithm& algorithm : kTable)
    if (name == algorithm.name) return &algorithm;
  return nullptr;
}

}  // namespace tbccl::algorithms
