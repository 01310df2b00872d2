#include "algorithms/algorithms.h"

#include <algorithm>
#include <array>

namespace tbccl::algorithms {

namespace {

constexpr tbcclOperation_t kDoubling[] = {tbcclOpAllReduce, tbcclOpBarrier, tbcclOpAllGather};
constexpr tbcclOperation_t kAll[] = {
    tbcclOpAllReduce, tbcclOpBarrier,    tbcclOpBroadcast,     tbcclOpReduce,
    tbcclOpAllGather, tbcclOpAllGatherV, tbcclOpReduceScatter, tbcclOpReduceScatterV,
    tbcclOpAllToAll,  tbcclOpAllToAllV,  tbcclOpGather,        tbcclOpGatherV,
    tbcclOpScatter,   tbcclOpScatterV,   tbcclOpScan,          tbcclOpExScan};
constexpr tbcclOperation_t kReduce[] = {tbcclOpAllReduce};
constexpr tbcclOperation_t kTree[] = {tbcclOpBroadcast, tbcclOpReduce};
constexpr tbcclOperation_t kBroadcast[] = {tbcclOpBroadcast};

constexpr tbcclOperation_t kRing[] = {tbcclOpAllReduce, tbcclOpAllGather, tbcclOpAllGatherV,
                                      tbcclOpReduceScatter, tbcclOpReduceScatterV};

constexpr tbcclOperation_t kCube[] = {tbcclOpAllReduce, tbcclOpBarrier};
constexpr tbcclOperation_t kRouted[] = {tbcclOpGather, tbcclOpScatter, tbcclOpAllToAll};
constexpr tbcclOperation_t kTrees[] = {
    tbcclOpAllReduce, tbcclOpBarrier,    tbcclOpBroadcast,     tbcclOpReduce,
    tbcclOpAllGather, tbcclOpAllGatherV, tbcclOpReduceScatter, tbcclOpReduceScatterV};

constexpr std::array kTable = {
    Algorithm{"direct", kAll, true, true, true, make_direct, cost_direct},
    Algorithm{"halving", kReduce, false, false, false, make_halving, cost_halving},
    Algorithm{"twostep", kReduce, true, true, true, make_twostep, cost_twostep},
    Algorithm{"doubling", kDoubling, true, false, false, make_doubling, cost_doubling},
    Algorithm{"cube", kCube, false, false, false, make_cube, cost_cube},
    Algorithm{"ring", kRing, false, false, false, make_ring, cost_ring},
    Algorithm{"tree", kTree, false, false, false, make_tree, cost_tree},
    Algorithm{"chain", kBroadcast, true, false, true, make_chain, cost_chain},
    Algorithm{"spanning", kTrees, false, false, false, make_spanning, cost_spanning},
    Algorithm{"shallow", kTrees, false, false, false, make_shallow, cost_shallow},
    Algorithm{"hierarchical", kTrees, false, false, false, make_hierarchical, cost_hierarchical},
    Algorithm{"routed", kRouted, false, false, false, make_routed, cost_routed},
};

}  // namespace

bool Algorithm::serves(tbcclOperation_t operation) const {
  return std::find(operations.begin(), operations.end(), operation) != operations.end();
}

bool Algorithm::possible(const schedule::Collective& collective,
                         const schedule::Basis& basis) const {
  return serves(collective.operation) && collective.root >= 0 && collective.root < basis.size;
}

std::span<const Algorithm> table() { return kTable; }

const Algorithm* find(std::string_view name) {
  for (const Algorithm& algorithm : kTable)
    if (name == algorithm.name) return &algorithm;
  return nullptr;
}

}  // namespace tbccl::algorithms
