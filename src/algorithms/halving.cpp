// All-reduce by recursive halving and doubling: 2 log2 n steps, any n.
//
// Plan.  Ranks stand on the corners of a hypercube. In step k of the halving a corner exchanges
//   with the corner that differs in the k-th dimension: each sends the half of its current range
//   that the other keeps and combines what it gets with the half it keeps itself, until every
//   corner holds one finished piece. The doubling plays the same exchanges backwards: what was sent
//   away comes back finished.
//
//   corner 0 (bits 00)   [ 0 1 2 3 ]   keep 0 1, send 2 3 to corner 2, then keep 0, send 1 to 1
//
// Two matchings.  If n is a power of two from 4 on, the vector is cut into two halves that walk
//   the dimensions in different order: half h uses dimension (k + h) mod log2 n in step k. So in
//   every step each rank talks to two different neighbours at once. With corners numbered around
//   the ring by the Gray code, a ring of four is such a hypercube,
//
//        position:  0 -- 1 -- 2 -- 3 -- 0        one half: 01 23, then 12 30
//        corner:    00   01   11   10            the other: 12 30, then 01 23
//
//   and takes 4 steps instead of 6 with every cable carrying the same 3/4 of a vector each way.
// Other n: one half; corners in rank order; extra ranks hand over first and get the result at
//   the end (order.h).
// Pieces.  2^dimensions a half. The piece that a corner ends with has the corner's bits, in the
//   order the half walks the dimensions, as its number: so every range is consecutive.
// Reduce-scatter: halving_blocks.cpp.
#include "algorithms/halving.h"

#include <algorithm>
#include <bit>

#include "algorithms/draft.h"
#include "algorithms/order.h"

namespace tbccl::algorithms {

namespace {

// Who stands where.
class Cube {
 public:
  Cube(int size, const schedule::Basis& basis) : corners_(size) {
    if (two_matchings()) ring_ = ring_order(basis).order;
  }

  bool two_matchings() const { return corners_.extra == 0 && corners_.dimensions >= 2; }
  int halves() const { return two_matchings() ? 2 : 1; }
  int dimensions() const { return corners_.dimensions; }
  int count() const { return corners_.count(); }
  const Corners& corners() const { return corners_; }
  int dimension(int half, int step) const { return (step + half) % corners_.dimensions; }

  int corner(int rank) const {
    if (!two_matchings()) return corners_.corner(rank);
    const auto p = static_cast<int>(std::find(ring_.begin(), ring_.end(), rank) - ring_.begin());
    return p ^ (p >> 1);
  }
  int rank(int corner) const {
    if (!two_matchings()) return corners_.rank(corner);
    int position = 0;
    for (int rest = corner; rest != 0; rest >>= 1) position ^= rest;
    return ring_[static_cast<size_t>(position)];
  }

 private:
  Corners corners_;
  std::vector<int> ring_;
};

// One half of the vector, of `cube.count()` pieces from `base` on, as one corner sees it.
class Half {
 public:
  Half(const Cube& cube, int half, int corner) : cube_(cube), half_(half), corner_(corner) {}

  // `start` holds the contribution, completed by `ready`. Appends the phases that complete the
  // result.
  void add_to(Draft& draft, const Operand& start, const std::vector<Dep>& ready,
              std::vector<int16_t>& finished) const {
    const int steps = cube_.dimensions();
    std::vector<int16_t> sent;
    int16_t combined = kNoPhase;
    for (int k = 0; k < steps; k++) {
      const Operand from = k == 0 ? start : output();
      const std::vector<Dep> deps = k == 0 ? ready : std::vector<Dep>{done(combined)};
      const Affine peer = fixed(partner(k));
      sent.push_back(draft.send(1, peer, given(k), tag(k, 0), from, deps));
      combined = draft.recv_reduce(1, peer, kept(k), tag(k, 0), from, output(),
                                   cube_.corner(partner(k)) < corner_, k + 1 == steps, deps);
    }
    std::vector<Dep> held = {done(combined)};
    finished.push_back(combined);
    for (int k = steps - 1; k >= 0; k--) {
      const Affine peer = fixed(partner(k));
      draft.send(1, peer, kept(k), tag(k, 1), output(), held);
      const bool overwrites = k > 0 || start == output();
      const int16_t received =
          draft.recv(1, peer, given(k), tag(k, 1), output(),
                     with({}, {released(overwrites ? sent[static_cast<size_t>(k)] : kNoPhase)}));
      held.push_back(done(received));
      finished.push_back(received);
    }
  }

 private:
  int partner(int k) const { return cube_.rank(corner_ ^ (1 << cube_.dimension(half_, k))); }
  Affine tag(int k, int back) const { return fixed((half_ * cube_.dimensions() + k) * 2 + back); }

  // The bits that the corner has decided in steps 0 .. k, the last one flipped or not, as a range.
  Range range(int k, bool flip) const {
    int bits = 0;
    for (int j = 0; j <= k; j++) bits = bits << 1 | (corner_ >> cube_.dimension(half_, j) & 1);
    const int rest = cube_.dimensions() - k - 1;
    return {fixed(half_ * cube_.count() + ((bits ^ (flip ? 1 : 0)) << rest)), 1 << rest};
  }
  Range kept(int k) const { return range(k, false); }
  Range given(int k) const { return range(k, true); }

  const Cube& cube_;
  int half_;
  int corner_;
};

}  // namespace

Schedule make_halving(const Collective& collective, int rank, int size,
                      const schedule::Basis& basis) {
  if (size == 1) return make_alone("halving", collective);
  if (collective.operation == tbcclOpReduceScatter)
    return make_halving_blocks(collective, rank, size, basis);
  const Cube cube(size, basis);
  const Corners& corners = cube.corners();
  Draft draft("halving", collective, rank, size, cube.halves() * cube.count(), false);
  if (corners.is_extra(rank)) {
    const int16_t sent =
        draft.send(1, fixed(rank - 1), draft.all(), fixed(0), draft.own(), draft.ready());
    draft.recv(1, fixed(rank - 1), draft.all(), fixed(0), output(),
               with({}, {released(draft.in_place() ? sent : kNoPhase)}));
    return draft.take();
  }
  std::vector<Dep> ready = draft.ready();
  Operand start = draft.own();
  if (corners.has_extra(rank)) {
    ready = {done(draft.recv_reduce(1, fixed(rank + 1), draft.all(), fixed(0), draft.own(),
                                    output(), false, false, ready))};
    start = output();
  }
  std::vector<int16_t> finished;
  for (int half = 0; half < cube.halves(); half++)
    Half(cube, half, cube.corner(rank)).add_to(draft, start, ready, finished);
  if (corners.has_extra(rank)) {
    std::vector<Dep> deps;
    for (int16_t phase : finished) deps.push_back(done(phase));
    draft.send(1, fixed(rank + 1), draft.all(), fixed(0), output(), deps);
  }
  return draft.take();
}

Cost cost_halving(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  if (n == 1) return price({}, bytes, basis);
  if (collective.operation == tbcclOpReduceScatter) return cost_halving_blocks(bytes, basis);
  const Cube cube(n, basis);
  const int steps = cube.dimensions(), halves = cube.halves();
  const double vector = static_cast<double>(bytes), part = vector / halves;
  Load load;
  load.steps = 2 * steps;
  double network = 0;
  for (int d = 0; d < steps; d++) {
    double carried = 0;  // each way between the corners that differ in dimension d
    for (int half = 0; half < halves; half++)
      carried += 2 * part / (2 << ((d - half + steps) % steps));
    double alpha = 0, wire = 0, shared = 0;
    for (int c = 0; c < cube.count(); c += sample_stride(n)) {
      const int a = cube.rank(c), b = cube.rank(c ^ (1 << d));
      alpha = std::max(alpha, basis.alpha(a, b));
      double& longest = uses_network(basis, a, b) ? shared : wire;
      longest = std::max(longest, carried / basis.rate(a, b));
    }
    load.latency += 2 * alpha;
    load.wire = std::max(load.wire, wire);
    network += shared;
  }
  const double share = static_cast<double>(cube.count() - 1) / cube.count();  // of the vector
  load.busiest = {4.0 * steps * halves, 4 * vector * share, vector * share};
  load.average = load.busiest;
  if (const int extra = cube.corners().extra; extra > 0) {
    load.steps += 2;
    load.latency += 2 * basis.alpha(0, 1);
    const double wire = vector / basis.rate(0, 1);
    if (uses_network(basis, 0, 1)) network += wire;
    load.wire = std::max(load.wire, wire);
    const double corners = static_cast<double>(cube.count()) / n, handed = 2.0 * extra / n;
    load.average = {load.busiest.messages * corners + 2 * handed,
                    load.busiest.moved * corners + 2 * vector * handed,
                    load.busiest.reduced * corners + vector * handed / 2};
    load.busiest = {load.busiest.messages + 2, load.busiest.moved + 2 * vector,
                    load.busiest.reduced + vector};
  }
  load.wire = std::max(load.wire, network);
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
