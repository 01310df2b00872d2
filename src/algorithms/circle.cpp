#include "algorithms/circle.h"

#include <algorithm>

namespace tbccl::algorithms {

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
  Load load;
  load.steps = static_cast<int>(held.size()) - 1;
  double network = 0;  // ns: one network carries a rank's messages to all peers
  for (size_t k = 0; k + 1 < held.size(); k++) {
    const double part = block * (held[k + 1] - held[k]);
    double alpha = 0, wire = 0, shared = 0;
    for (int rank = 0; rank < n; rank += sample_stride(n)) {
      const int peer = (rank + held[k]) % n;
      alpha = std::max(alpha, basis.alpha(rank, peer));
      double& longest = uses_network(basis, rank, peer) ? shared : wire;
      longest = std::max(longest, part / basis.rate(rank, peer));
    }
    load.latency += alpha;
    load.wire = std::max(load.wire, wire);
    network += shared;
  }
  load.wire = std::max(load.wire, network);
  load.average = {2.0 * load.steps, 2 * block * (n - 1), 0, 0};
  load.busiest = load.average;
  // Of the last rank, whose blocks pass the end of the circle in all steps but the first.
  load.busiest.messages += std::max(load.steps - 1, 0);
  return load;
}

}  // namespace tbccl::algorithms
