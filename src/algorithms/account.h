// What links carry and ranks do, message by message: the load of algorithms without a formula.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "algorithms/cost.h"

namespace tbccl::algorithms {

class Account {
 public:
  explicit Account(const schedule::Basis& basis)
      : basis_(basis), work_(static_cast<size_t>(basis.size)) {}

  // `bytes` in so many messages.
  void carry(int from, int to, double bytes, int messages, bool combined);
  // All but steps and latency.
  void add_to(Load& load) const;

 private:
  const schedule::Basis& basis_;
  std::vector<Work> work_;                         // of each rank
  std::map<std::pair<int, int>, double> carried_;  // bytes, by sender and receiver
};

// Bytes that a rank has before it passes any on: the transports' segments are about as long.
inline constexpr double kFirstSegment = 64 << 10;

// What a hop adds to the way of the first segment, but for the last one, from `from` to `to`.
double passing_ns(double bytes, int from, int to, const schedule::Basis& basis);

}  // namespace tbccl::algorithms
