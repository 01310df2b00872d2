#include "algorithms/order.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <set>

namespace tbccl::algorithms {

namespace {

constexpr int kSearchSteps = 20'000;  // of one search; 8 ranks in any cabling need fewer

// Depth-first search for a path over all ranks along links of at least a given rate, lowest
// ranks first, so that its result is a function of the cabling.
class PathSearch {
 public:
  PathSearch(const schedule::Basis& basis, double least, bool closed)
      : size_(basis.size), closed_(closed), next_(static_cast<size_t>(basis.size)) {
    for (const schedule::Cable& c : basis.cables)
      if (basis.rate(c.a, c.b) >= least) {
        next_[static_cast<size_t>(c.a)].insert(c.b);
        next_[static_cast<size_t>(c.b)].insert(c.a);
      }
  }

  // Empty: there is none, or it was not found within the bound.
  std::vector<int> find() {
    const int starts = closed_ ? 1 : size_;  // a closed ring can start anywhere
    for (int start = 0; start < starts; start++) {
      path_ = {start};
      used_.assign(static_cast<size_t>(size_), false);
      used_[static_cast<size_t>(start)] = true;
      if (extend()) return path_;
    }
    return {};
  }

 private:
  bool complete() const {
    return static_cast<int>(path_.size()) == size_ &&
           (!closed_ || next_[static_cast<size_t>(path_.back())].contains(path_.front()));
  }

  bool extend() {
    if (complete()) return true;
    if (++steps_ > kSearchSteps) return false;
    for (int rank : next_[static_cast<size_t>(path_.back())]) {
      if (used_[static_cast<size_t>(rank)]) continue;
      used_[static_cast<size_t>(rank)] = true;
      path_.push_back(rank);
      if (extend()) return true;
      path_.pop_back();
      used_[static_cast<size_t>(rank)] = false;
    }
    return false;
  }

  int size_;
  bool closed_;
  std::vector<std::set<int>> next_;
  std::vector<int> path_;
  std::vector<bool> used_;
  int steps_ = 0;
};

std::vector<int> by_host(const schedule::Basis& basis) {
  std::vector<int> order(static_cast<size_t>(basis.size));
  std::iota(order.begin(), order.end(), 0);
  if (basis.host.size() == order.size())
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return basis.host[static_cast<size_t>(a)] < basis.host[static_cast<size_t>(b)];
    });
  return order;
}

std::set<double, std::greater<>> pair_rates(const schedule::Basis& basis) {
  std::set<double, std::greater<>> rates;
  for (const schedule::Cable& c : basis.cables) rates.insert(basis.rate(c.a, c.b));
  return rates;
}

// The common case, without a search: all pairs that rank order makes neighbours share one rate.
bool natural_order_is_best(const schedule::Basis& basis, double fastest) {
  for (int r = 0; r < basis.size; r++) {
    const int next = (r + 1) % basis.size;
    if (!basis.joined(r, next) || basis.rate(r, next) < fastest) return false;
  }
  return true;
}

}  // namespace

int RingOrder::position(int rank) const {
  return static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
}

RingOrder ring_order(const schedule::Basis& basis) {
  RingOrder result{by_host(basis), true};
  if (basis.cables.empty() || basis.size < 3) return result;
  const auto rates = pair_rates(basis);
  if (natural_order_is_best(basis, *rates.begin())) {
    std::iota(result.order.begin(), result.order.end(), 0);
    return result;
  }
  for (bool closed : {true, false})
    for (double least : rates) {
      std::vector<int> path = PathSearch(basis, least, closed).find();
      if (!path.empty()) return {std::move(path), closed};
    }
  return result;
}

Corners::Corners(int size) {
  dimensions = static_cast<int>(std::bit_width(static_cast<unsigned>(size))) - 1;
  extra = size - count();
}

}  // namespace tbccl::algorithms
