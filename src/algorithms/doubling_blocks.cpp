// All-gather by recursive doubling: log2 n steps, any n.
//
// Plan.  Ranks stand on the corners of a hypercube (order.h: consecutive ranks). Before step k a
//   corner has the blocks of its group of 2^k corners, which lie side by side; it exchanges them
//   for those of the group of the corner that differs in bit k:
//
//   n = 6:   0 <- 1   2 <- 3   4    5       extra ranks hand over (corners 0 1 2 3)
//            01 <--> 23        4 <-> 5      step 0
//            0123 <---------> 45            step 1
//            0 -> 1   2 -> 3                extra ranks get all
//
// Cost.  log2 n latencies, and no byte twice: for blocks that are too small for a ring.
#include <algorithm>

#include "algorithms/doubling.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

// The blocks of `count` corners from `corner` on.
Range blocks_of(const Corners& corners, int size, int corner, int count) {
  const int end = corner + count;
  const int first = corners.rank(corner);
  return {fixed(first), (end == corners.count() ? size : corners.rank(end)) - first};
}

}  // namespace

Schedule make_doubling_blocks(const Collective& collective, const Cube& cube, int rank, int size) {
  Draft draft("doubling", collective, rank, size, 1, true);
  const Corners& corners = cube.corners();
  if (corners.is_extra(rank)) {
    const int16_t sent = draft.send(1, fixed(rank - 1), {fixed(rank)}, fixed(0), draft.own(), {});
    draft.recv(1, fixed(rank - 1), draft.all(), fixed(0), output(),
               with({}, {released(draft.in_place() ? sent : kNoPhase)}));
    return draft.take();
  }
  std::vector<Dep> has;
  if (!draft.in_place())
    has.push_back(done(draft.copy({fixed(rank)}, input(), output(), false, {})));
  if (corners.has_extra(rank))
    has.push_back(done(draft.recv(1, fixed(rank + 1), {fixed(rank + 1)}, fixed(0), output(), {})));
  const int corner = corners.corner(rank);
  for (int k = 0; k < corners.dimensions; k++) {
    const int group = corner & -(1 << k), other = group ^ (1 << k);
    const Affine partner = fixed(cube.rank(cube.partner(corner, k)));
    draft.send(1, partner, blocks_of(corners, size, group, 1 << k), fixed(k), output(), has);
    has.push_back(done(
        draft.recv(1, partner, blocks_of(corners, size, other, 1 << k), fixed(k), output(), {})));
  }
  if (corners.has_extra(rank)) draft.send(1, fixed(rank + 1), draft.all(), fixed(0), output(), has);
  return draft.take();
}

Cost cost_doubling_blocks(const Cube& cube, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  const double vector = static_cast<double>(bytes);
  const Corners& corners = cube.corners();
  Load load;
  if (n == 1) return price(load, bytes, basis);
  load.steps = corners.dimensions + (corners.extra > 0 ? 2 : 0);
  double network = 0;
  for (int k = 0; k < corners.dimensions; k++) {
    const double part = vector * (1 << k) / corners.count();
    double alpha = 0, wire = 0, shared = 0;
    for (int c = 0; c < corners.count(); c += sample_stride(n)) {
      const int a = corners.rank(c), b = cube.rank(cube.partner(c, k));
      alpha = std::max(alpha, basis.alpha(a, b));
      double& longest = uses_network(basis, a, b) ? shared : wire;
      longest = std::max(longest, part / basis.rate(a, b));
    }
    load.latency += alpha;
    load.wire = std::max(load.wire, wire);
    network += shared;
  }
  const double moved = 2 * vector * (corners.count() - 1) / corners.count();
  load.busiest = {2.0 * corners.dimensions, moved, 0};
  load.average = load.busiest;
  if (corners.extra > 0) {
    load.latency += 2 * basis.alpha(0, 1);
    const double wire = vector / basis.rate(0, 1);
    if (uses_network(basis, 0, 1)) network += wire;
    load.wire = std::max(load.wire, wire);
    load.busiest = {load.busiest.messages + 2, moved + vector, 0};
    load.average = load.busiest;
  }
  load.wire = std::max(load.wire, network);
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
