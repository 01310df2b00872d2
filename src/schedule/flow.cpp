#include "schedule/flow.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tbccl::schedule {

namespace {
constexpr double kNothing = 1e-12;  // of the largest capacity
}

void Flow::add(int32_t from, int32_t to, double capacity, double back) {
  arcs_of_[static_cast<size_t>(from)].push_back(static_cast<int32_t>(arcs_.size()));
  arcs_.push_back({to, capacity});
  arcs_of_[static_cast<size_t>(to)].push_back(static_cast<int32_t>(arcs_.size()));
  arcs_.push_back({from, back});
  for (double c : {capacity, back})
    if (std::isfinite(c)) least_ = std::max(least_, c * kNothing);
}

bool Flow::levels(int32_t from, int32_t to) {
  level_.assign(arcs_of_.size(), -1);
  level_[static_cast<size_t>(from)] = 0;
  std::vector<int32_t> queue = {from};
  for (size_t at = 0; at < queue.size(); at++)
    for (int32_t a : arcs_of_[static_cast<size_t>(queue[at])]) {
      const Arc& arc = arcs_[static_cast<size_t>(a)];
      int32_t& level = level_[static_cast<size_t>(arc.to)];
      if (!open(arc) || level >= 0) continue;
      level = level_[static_cast<size_t>(queue[at])] + 1;
      queue.push_back(arc.to);
    }
  return level_[static_cast<size_t>(to)] >= 0;
}

double Flow::push(int32_t node, int32_t to, double limit) {
  if (node == to) return limit;
  const auto n = static_cast<size_t>(node);
  for (; next_[n] < arcs_of_[n].size(); next_[n]++) {
    const auto a = static_cast<size_t>(arcs_of_[n][next_[n]]);
    const int32_t other = arcs_[a].to;
    if (!open(arcs_[a]) || level_[static_cast<size_t>(other)] != level_[n] + 1) continue;
    const double sent = push(other, to, std::min(limit, arcs_[a].left));
    if (sent <= 0) continue;
    arcs_[a].left -= sent;
    arcs_[a ^ 1].left += sent;
    return sent;
  }
  return 0;
}

double Flow::most(int32_t from, int32_t to) {
  double total = 0;
  while (levels(from, to)) {
    next_.assign(arcs_of_.size(), 0);
    while (const double sent = push(from, to, std::numeric_limits<double>::infinity()))
      total += sent;
  }
  return total;
}

std::vector<bool> Flow::source_side(int32_t from) const {
  std::vector<bool> reached(arcs_of_.size(), false);
  std::vector<int32_t> rest = {from};
  reached[static_cast<size_t>(from)] = true;
  while (!rest.empty()) {
    const int32_t node = rest.back();
    rest.pop_back();
    for (int32_t a : arcs_of_[static_cast<size_t>(node)]) {
      const Arc& arc = arcs_[static_cast<size_t>(a)];
      if (!open(arc) || reached[static_cast<size_t>(arc.to)]) continue;
      reached[static_cast<size_t>(arc.to)] = true;
      rest.push_back(arc.to);
    }
  }
  return reached;
}

}  // namespace tbccl::schedule
