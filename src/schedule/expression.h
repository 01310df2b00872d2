// What a piece of a buffer holds, symbolically. Equal expressions have equal numbers, so
// "the same bits" is one comparison.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "schedule/schedule.h"

namespace tbccl::schedule {

using Expression = int32_t;
inline constexpr Expression kUnwritten = -1;

class Expressions {
 public:
  Expression contribution(int32_t rank, int32_t piece);
  Expression scaled(Expression x);
  Expression finished(Expression x);  // after the last combination
  Expression combined(Expression a, Expression b);
  Expression folded(std::span<const Expression> sources);  // left to right, rounded once

  bool is_contribution(Expression x, int32_t rank, int32_t piece) const;

  // Empty if `x` is the finished combination of the contributions of ranks 0 to `ranks` - 1 to
  // `piece`, each once, scaled once first if `scale`, in rank order if `rank_order`. Otherwise what
  // is wrong with it.
  std::string not_a_result(Expression x, int32_t piece, int32_t ranks, bool scale,
                           bool rank_order) const;

 private:
  enum class Op : uint8_t { kContribution, kScaled, kFinished, kCombined, kFoldLink, kFolded };
  struct Node {
    Op op;
    int32_t a, b;
  };
  Expression intern(Op op, int32_t a, int32_t b);
  const Node& node(Expression x) const { return nodes_[static_cast<size_t>(x)]; }

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, Expression> known_;
};

}  // namespace tbccl::schedule
