// The algorithms: pure functions that write schedules, and what they cost.
//
// `make` may be called for any n >= 1, and all ranks' schedules together are right for any mix of
// in-place and other ranks: messages depend on (collective without in_place, n, basis) alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithms/cost.h"
#include "schedule/basis.h"
#include "schedule/schedule.h"

namespace tbccl::algorithms {

// What an algorithm gains from: where there is none of it, it is left out unless it is asked for.
enum class Suits { kAnywhere, kCables, kHosts };

struct Algorithm {
  const char* name;
  std::span<const tbcclOperation_t> operations;
  // Of operations that reduce:
  bool rank_order;  // combines in rank order: may be used without commutativity
  bool board;       // a board can carry it out (but for variable counts)
  bool one_fold;    // ... left to right with one rounding: the same bits as every other such one
  schedule::Schedule (*make)(const schedule::Collective&, int rank, int size,
                             const schedule::Basis&);
  // `bytes` of the vector. Does not depend on in_place, which may differ between ranks.
  Cost (*cost)(const schedule::Collective&, uint64_t bytes, const schedule::Basis&);
  Suits suits = Suits::kAnywhere;

  bool serves(tbcclOperation_t operation) const;
  // serves, and the root is one of the ranks.
  bool possible(const schedule::Collective& collective, const schedule::Basis& basis) const;
  // rank_order, or a scan, whose results are in rank order by definition.
  bool keeps_rank_order(tbcclOperation_t operation) const;
  // Cables are given; some ranks share a host and some do not.
  bool suited(const schedule::Basis& basis) const;
};

// Whether all messages go between ranks that share a cable or a host; true where no cabling is
// given. Of more than kAllRanks ranks some are looked at.
inline constexpr int kAllRanks = 32;
bool along_cables(const Algorithm& algorithm, const schedule::Collective& collective,
                  const schedule::Basis& basis);

std::span<const Algorithm> table();  // in order of preference where costs are equal
const Algorithm* find(std::string_view name);

#define TBCCL_ALGORITHM(name)                                                     \
  schedule::Schedule make_##name(const schedule::Collective&, int rank, int size, \
                                 const schedule::Basis&);                         \
  Cost cost_##name(const schedule::Collective&, uint64_t bytes, const schedule::Basis&)
TBCCL_ALGORITHM(direct);
TBCCL_ALGORITHM(twostep);
TBCCL_ALGORITHM(doubling);
TBCCL_ALGORITHM(halving);
TBCCL_ALGORITHM(ring);
TBCCL_ALGORITHM(tree);
TBCCL_ALGORITHM(chain);
TBCCL_ALGORITHM(scatter_gather);
TBCCL_ALGORITHM(double_tree);
TBCCL_ALGORITHM(pairwise);
TBCCL_ALGORITHM(bruck);
TBCCL_ALGORITHM(spanning);
TBCCL_ALGORITHM(shallow);
TBCCL_ALGORITHM(hierarchical);
TBCCL_ALGORITHM(cube);
TBCCL_ALGORITHM(routed);
#undef TBCCL_ALGORITHM

}  // namespace tbccl::algorithms
