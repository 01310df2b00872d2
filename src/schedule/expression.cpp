#include "schedule/expression.h"

#include "base/formatted.h"

namespace tbccl::schedule {

Expression Expressions::intern(Op op, int32_t a, int32_t b) {
  // 28 bits are 268 million expressions: more than memory holds.
  const uint64_t key = uint64_t{static_cast<uint8_t>(op)} << 56 |
                       (uint64_t{static_cast<uint32_t>(a)} & 0xfffffff) << 28 |
                       (uint64_t{static_cast<uint32_t>(b)} & 0xfffffff);
  const auto [at, fresh] = known_.try_emplace(key, static_cast<Expression>(nodes_.size()));
  if (fresh) nodes_.push_back({op, a, b});
  return at->second;
}

Expression Expressions::contribution(int32_t rank, int32_t piece) {
  return intern(Op::kContribution, rank, piece);
}

Expression Expressions::scaled(Expression x) { return intern(Op::kScaled, x, 0); }

Expression Expressions::finished(Expression x) { return intern(Op::kFinished, x, 0); }

Expression Expressions::combined(Expression a, Expression b) { return intern(Op::kCombined, a, b); }

Expression Expressions::folded(std::span<const Expression> sources) {
  Expression x = sources.front();
  for (Expression next : sources.subspan(1)) x = intern(Op::kFoldLink, x, next);
  return intern(Op::kFolded, x, 0);
}

bool Expressions::is_contribution(Expression x, int32_t rank, int32_t piece) const {
  const Node& n = node(x);
  return n.op == Op::kContribution && n.a == rank && n.b == piece;
}

std::string Expressions::not_a_result(Expression x, int32_t piece, int32_t ranks, bool scale,
                                      bool rank_order) const {
  if (x == kUnwritten) return "is not written";
  if (node(x).op != Op::kFinished) return "is not finished by its last combination";
  std::vector<int32_t> times(static_cast<size_t>(ranks), 0);
  std::vector<Expression> rest = {node(x).a};  // visited from left to right
  int32_t expected = 0;
  while (!rest.empty()) {
    Node n = node(rest.back());
    rest.pop_back();
    if (n.op == Op::kFinished) return "is finished before its last combination";
    if (n.op == Op::kCombined || n.op == Op::kFoldLink) {
      rest.push_back(n.b);
      rest.push_back(n.a);
      continue;
    }
    if (n.op == Op::kFolded) {
      rest.push_back(n.a);
      continue;
    }
    const bool is_scaled = n.op == Op::kScaled;
    if (is_scaled) n = node(n.a);
    if (n.op != Op::kContribution) return "is scaled after a combination, or twice";
    if (is_scaled != scale)
      return formatted("holds the contribution of rank {} {}", n.a, scale ? "unscaled" : "scaled");
    if (n.b != piece) return formatted("holds piece {} of rank {}", n.b, n.a);
    if (n.a >= ranks) return formatted("holds the contribution of rank {}, which has none", n.a);
    if (++times[static_cast<size_t>(n.a)] > 1)
      return formatted("holds the contribution of rank {} more than once", n.a);
    if (rank_order && n.a != expected++)
      return formatted("holds the contribution of rank {} out of rank order", n.a);
  }
  for (int32_t rank = 0; rank < ranks; rank++)
    if (times[static_cast<size_t>(rank)] == 0)
      return formatted("lacks the contribution of rank {}", rank);
  return {};
}

}  // namespace tbccl::schedule
