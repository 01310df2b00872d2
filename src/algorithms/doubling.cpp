// All-reduce by recursive doubling: log2 n steps, any n.
//
// Plan.  Ranks stand on the corners of a hypercube (order.h: consecutive ranks, in rank order).
//   In step k every corner exchanges its vector with the corner that differs in bit k, and both
//   combine, the lower corner's operand first: afterwards they hold the fold of 2^(k+1) consecutive
//   corners, in rank order, by the same expression.
//
//   n = 6:   0 <- 1   2 <- 3   4    5       extra ranks hand over (corners 0 1 2 3)
//            0 <----> 2        4 <-> 5      step 0
//            0 <-------------> 4            step 1 (and 2 <-> 5)
//            0 -> 1   2 -> 3                extra ranks get the result
//
// Cables.  All corners of a group of 2^k hold the same after step k - 1, so a corner may as well
//   exchange with another one of the other group: in step k with corner xor m, for any m of k + 1
//   bits. The least m is taken with which all exchanges of the step have a cable, if there is one:
//   on a ring of four 0-1 and 2-3, then 0-3 and 1-2, both along the ring.
// Cube.  The same where ranks stand on the corners in the order of a ring along the cables
//   (order.h): for rings that are cabled in another order than that of ranks. It gives up that
//   contributions are combined in rank order.
// Buffers.  A vector that is being sent may not be overwritten before it is released, so every step
//   receives into another place than it sends from: output and scratch in turn, ending in the
//   output. A rank whose vector lies in the output at first needs one place more if the number of
//   steps is odd; with a single step it sends a copy instead.
// Cost.  log2 n latencies, a whole vector each: for small vectors. Everything is done twice on
//   half of all operands, but nothing has to be sent back.
#include "algorithms/doubling.h"

#include <algorithm>
#include <numeric>

#include "algorithms/algorithms.h"
#include "algorithms/draft.h"
#include "algorithms/order.h"

namespace tbccl::algorithms {

namespace {

bool is_scan(tbcclOperation_t operation) {
  return operation == tbcclOpScan || operation == tbcclOpExScan;
}

// Where the vector lies before step k, for k = 0 .. steps; the last is the output.
std::vector<Operand> places(const Operand& first, int steps) {
  std::vector<Operand> place(static_cast<size_t>(steps) + 1);
  for (int k = 1; k <= steps; k++)
    place[static_cast<size_t>(k)] = (steps - k) % 2 == 0 ? output() : scratch(fixed(0));
  place[0] = first;
  if (first == output() && steps % 2 == 1 && steps > 1) {
    place[1] = scratch(fixed(0));
    place[2] = scratch(fixed(1));
  }
  return place;
}

int slots_of(const std::vector<Operand>& places) {
  int slots = 0;
  for (const Operand& place : places)
    if (place.buffer == Buffer::kScratch) slots = std::max(slots, place.slot.at(0) + 1);
  return slots;
}

class Exchange {
 public:
  Exchange(Draft& draft, const Cube& cube, int corner, const Operand& first, std::vector<Dep> ready)
      : draft_(draft),
        cube_(cube),
        corner_(corner),
        place_(places(first, cube.corners().dimensions)),
        ready_(std::move(ready)) {}

  // Returns the phase that completes the result.
  int16_t run() {
    const int steps = cube_.corners().dimensions;
    draft_.scratch_slots(slots_of(place_));
    if (steps == 1 && place_[0] == output()) return single_step_in_output();
    std::vector<int16_t> sent(static_cast<size_t>(steps));
    for (int k = 0; k < steps; k++) {
      const auto now = static_cast<size_t>(k);
      sent[now] = send(k, place_[now]);
      std::vector<Dep> deps = ready_;
      for (int j = k - 1; j >= 0; j--)
        if (place_[static_cast<size_t>(j)] == place_[now + 1]) {
          deps.push_back(released(sent[static_cast<size_t>(j)]));
          break;  // whatever was sent from there before has been overwritten once already
        }
      ready_ = {done(combine(k, place_[now], place_[now + 1], std::move(deps)))};
    }
    return ready_.front().phase;
  }

 private:
  int partner(int k) const { return cube_.partner(corner_, k); }
  int16_t send(int k, const Operand& from) {
    return draft_.send(1, fixed(cube_.rank(partner(k))), draft_.all(), fixed(k), from, ready_);
  }
  int16_t combine(int k, const Operand& src, const Operand& dst, std::vector<Dep> deps) {
    return draft_.recv_reduce(1, fixed(cube_.rank(partner(k))), draft_.all(), fixed(k), src, dst,
                              partner(k) < corner_, k + 1 == cube_.corners().dimensions,
                              std::move(deps));
  }

  int16_t single_step_in_output() {
    const Operand spare = scratch(fixed(0));
    draft_.scratch_slots(1);
    const int16_t copied = draft_.copy(draft_.all(), output(), spare, false, ready_);
    draft_.send(1, fixed(cube_.rank(partner(0))), draft_.all(), fixed(0), spare, {done(copied)});
    return combine(0, output(), output(), {done(copied)});
  }

  Draft& draft_;
  const Cube& cube_;
  int corner_;
  std::vector<Operand> place_;
  std::vector<Dep> ready_;
};

Schedule make_on_cube(Draft draft, const Cube& cube, int rank) {
  const Corners& corners = cube.corners();
  const int place = cube.place(rank);
  if (corners.is_extra(place)) {
    const Affine other = fixed(cube.at(place - 1));
    const int16_t sent = draft.send(1, other, draft.all(), fixed(0), draft.own(), draft.ready());
    draft.recv(1, other, draft.all(), fixed(0), output(),
               with({}, {released(draft.in_place() ? sent : kNoPhase)}));
    return draft.take();
  }
  std::vector<Dep> ready = draft.ready();
  Operand first = draft.own();
  if (corners.has_extra(place)) {
    const int16_t joined = draft.recv_reduce(1, fixed(cube.at(place + 1)), draft.all(), fixed(0),
                                             draft.own(), output(), false, false, ready);
    ready = {done(joined)};
    first = output();
  }
  const int16_t result = Exchange(draft, cube, corners.corner(place), first, ready).run();
  if (corners.has_extra(place))
    draft.send(1, fixed(cube.at(place + 1)), draft.all(), fixed(0), output(), {done(result)});
  return draft.take();
}

Cost price_cube(const Cube& cube, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  const double vector = static_cast<double>(bytes);
  const Corners& corners = cube.corners();
  Load load;
  load.steps = corners.dimensions + (corners.extra > 0 ? 2 : 0);
  double network = 0;  // ns: one network carries a rank's messages to all peers
  for (int k = 0; k < corners.dimensions; k++) {
    double alpha = 0, wire = 0, shared = 0;
    for (int c = 0; c < corners.count(); c += sample_stride(n)) {
      const int a = cube.rank(c), b = cube.rank(cube.partner(c, k));
      alpha = std::max(alpha, basis.alpha(a, b));
      double& longest = uses_network(basis, a, b) ? shared : wire;
      longest = std::max(longest, vector / basis.rate(a, b));
    }
    load.latency += alpha;
    load.wire = std::max(load.wire, wire);
    network += shared;
  }
  load.busiest = {2.0 * corners.dimensions, 2 * vector * corners.dimensions,
                  vector * corners.dimensions};
  load.average = load.busiest;
  if (corners.extra > 0) {
    const int a = cube.at(0), b = cube.at(1);
    const double wire = vector / basis.rate(a, b);
    load.latency += 2 * basis.alpha(a, b);
    if (uses_network(basis, a, b)) network += wire;
    load.wire = std::max(load.wire, wire);
    load.busiest = {load.busiest.messages + 2, load.busiest.moved + 2 * vector,
                    load.busiest.reduced + vector};
    const double share = static_cast<double>(corners.count()) / n;
    const double handed = 2.0 * corners.extra / n;  // ranks in a pair, of all
    load.average = {load.average.messages * share + 2 * handed,
                    load.average.moved * share + 2 * vector * handed,
                    load.average.reduced * share + vector * handed / 2};
  }
  load.wire = std::max(load.wire, network);
  return price(load, bytes, basis);
}

}  // namespace

Cube::Cube(const schedule::Basis& basis, bool along_ring) : corners_(basis.size) {
  order_.resize(static_cast<size_t>(basis.size));
  std::iota(order_.begin(), order_.end(), 0);
  if (along_ring) order_ = ring_order(basis).order;
  for (int k = 0; k < corners_.dimensions; k++) masks_.push_back(mask(basis, k));
}

int Cube::place(int rank) const {
  return static_cast<int>(std::find(order_.begin(), order_.end(), rank) - order_.begin());
}

int Cube::mask(const schedule::Basis& basis, int k) const {
  const int least = 1 << k;
  if (basis.cables.empty()) return least;
  for (int m = least; m < 2 * least; m++) {
    bool all = true;
    for (int c = 0; c < corners_.count() && all; c++) all = basis.joined(rank(c), rank(c ^ m));
    if (all) return m;
  }
  return least;
}

Schedule make_doubling(const Collective& collective, int rank, int size,
                       const schedule::Basis& basis) {
  if (size == 1) return make_alone("doubling", collective);
  if (is_scan(collective.operation)) return make_doubling_scan(collective, rank, size);
  const Cube cube(basis, false);
  if (collective.operation == tbcclOpAllGather)
    return make_doubling_blocks(collective, cube, rank, size);
  return make_on_cube({"doubling", collective, rank, size, 1, true}, cube, rank);
}

Cost cost_doubling(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  if (is_scan(collective.operation)) return cost_doubling_scan(collective, bytes, basis);
  const Cube cube(basis, false);
  if (collective.operation == tbcclOpAllGather) return cost_doubling_blocks(cube, bytes, basis);
  return price_cube(cube, bytes, basis);
}

Schedule make_cube(const Collective& collective, int rank, int size, const schedule::Basis& basis) {
  if (size == 1) return make_alone("cube", collective);
  return make_on_cube({"cube", collective, rank, size, 1, false}, Cube(basis, true), rank);
}

Cost cost_cube(const Collective&, uint64_t bytes, const schedule::Basis& basis) {
  return price_cube(Cube(basis, true), bytes, basis);
}

}  // namespace tbccl::algorithms
