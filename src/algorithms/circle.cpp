#include "algorithms/circle.h"

#include <algorithm>

namespace tbccl::algorithms {

namespace {

// After so many messages that wait for each other, and so long.
struct Arrival {
  int steps = 0;
  double ns = 0;
};

}  // namespace

std::vector<int> growth(int size) {
  std::vector<int> held = {size};
  while (held.back() > 1) held.push_back((held.back() + 1) / 2);
  std::reverse(held.begin(), held.end());
  return held;
}

std::vector<Range> on_circle(int first, int count, int size) {
  const int begin = first % size, before_end = std::min(count, size - begin);
  std::vector<Range> ranges = {{fixed(begin), before_end}};
  if (count > before_end) ranges.push_back({fixed(0), count - before_end});
  return ranges;
}

Load circle_load(double block, const schedule::Basis& basis) {
  const int n = basis.size;
  const std::vector<int> held = growth(n);
  std::vector<Arrival> arrived = {{}};  // of the own block, and of each step's
  Load load;
  double network = 0;  // ns: one network carries a rank's messages to all peers
  for (size_t k = 0; k + 1 < held.size(); k++) {
    const int count = held[k + 1] - held[k];
    double alpha = 0, wire = 0, shared = 0;
    for (int rank = 0; rank < n; rank += sample_stride(n)) {
      const int peer = (rank + held[k]) % n;
      alpha = std::max(alpha, basis.alpha(rank, peer));
      double& longest = uses_network(basis, rank, peer) ? shared : wire;
      longest = std::max(longest, block * count / basis.rate(rank, peer));
    }
    load.wire = std::max(load.wire, wire);
    network += shared;
    Arrival last;
    for (size_t j = 0; j <= k && (j == 0 || held[j - 1] < count); j++) {
      last.steps = std::max(last.steps, arrived[j].steps);
      last.ns = std::max(last.ns, arrived[j].ns);
    }
    arrived.push_back({last.steps + 1, last.ns + alpha});
    load.steps = std::max(load.steps, arrived.back().steps);
    load.latency = std::max(load.latency, arrived.back().ns);
  }
  load.wire = std::max(load.wire, network);
  const auto messages = static_cast<double>(held.size() - 1);
  load.average = {2 * messages, 2 * block * (n - 1), 0, 0};
  load.busiest = load.average;
  // Of the last rank, whose blocks pass the end of the circle in all steps but the first.
  load.busiest.messages += messages - 1;
  return load;
}

}  // namespace tbccl::algorithms
