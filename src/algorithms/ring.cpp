// All-reduce around a ring, in both directions at once.
//
// Plan.  2n pieces: the first n travel forwards, the last n backwards. In a direction let q be a
//   rank's position along it and `next`, `prev` its neighbours:
//
//   reduce   step s = 0 .. n-2: send piece q - s to next; receive piece q - 1 - s from prev and
//            combine it with the own contribution. At the end position q holds piece q + 1 whole.
//   gather   step s = 0 .. n-2: send piece q + 1 - s to next; receive piece q - s from prev.
//
//        piece:     0 > 1 > 2 > 3     the partial sum of a piece walks once around the ring,
//        position:  0   1   2   3     its result walks once more
//
// Phases.  What is sent in step s >= 1 is what was received in step s - 1, so it is a phase of its
// own
//   whose iterations each wait for one iteration of the receives. The gather's receives overwrite
//   partial sums that were sent in the reduction, and in place the first piece sent.
// Two ranks: next and prev are the same peer; the directions are told apart by their tags.
// Cost.  2 (n - 1) latencies; every cable carries (n - 1) / n vectors each way, the lower bound
//   for a ring.
#include "algorithms/ring.h"

#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/draft.h"
#include "algorithms/order.h"

namespace tbccl::algorithms {

namespace {

struct Direction {
  int position = 0;
  int next = 0, prev = 0;  // ranks
  int pieces = 0;          // first of its n pieces
  int tags = 0;            // first of its tags
};

void add_direction(Draft& draft, const Direction& d, int n) {
  const int q = d.position;
  const auto from = [&](int piece) { return Range{around(piece, -1, n, d.pieces)}; };
  const auto tag = [&](int step) { return counting(d.tags + step); };
  const Affine next = fixed(d.next), prev = fixed(d.prev);
  const int last = n - 2;  // step

  const int16_t first_sent = draft.send(1, next, from(q), tag(0), draft.own(), draft.ready());
  const int16_t partial = draft.recv_reduce(last, prev, from(q - 1), tag(0), draft.own(), output(),
                                            true, false, draft.ready());
  const int16_t whole = draft.recv_reduce(1, prev, from(q - 1 - last), tag(last), draft.own(),
                                          output(), true, true, draft.ready());
  const int16_t passed = draft.send(last, next, from(q - 1), tag(1), output(), {done(partial, 0)});

  draft.send(1, next, from(q + 1), tag(n - 1), output(), {done(whole)});
  std::vector<Dep> overwrites = {released(passed, -1)};
  if (draft.in_place()) overwrites.push_back(released(first_sent, 0));
  const int16_t gathered =
      draft.recv(n - 1, prev, from(q), tag(n - 1), output(), std::move(overwrites));
  draft.send(last, next, from(q), tag(n), output(), {done(gathered, 0)});
}

}  // namespace

Schedule make_ring(const Collective& collective, int rank, int size, const schedule::Basis& basis) {
  if (size == 1) return make_alone("ring", collective);
  if (collective.operation != tbcclOpAllReduce)
    return make_ring_blocks(collective, rank, size, basis);
  Draft draft("ring", collective, rank, size, 2 * size, false);
  const RingOrder ring = ring_order(basis);
  const int p = ring.position(rank);
  const auto at = [&](int position) {
    return ring.order[static_cast<size_t>((position + size) % size)];
  };
  const int tags = 2 * (size - 1);
  add_direction(draft, {p, at(p + 1), at(p - 1), 0, 0}, size);
  add_direction(draft, {(size - p) % size, at(p - 1), at(p + 1), size, tags}, size);
  return draft.take();
}

Cost cost_ring(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  const bool both = collective.operation == tbcclOpAllReduce;  // scatters, then gathers
  // By a link, each way.
  const double carried = static_cast<double>(bytes) * (n - 1) / n / (both ? 1 : 2);
  Load load;
  if (n > 1) {
    const RingOrder ring = ring_order(basis);
    double rate = 0, alpha = 0;
    for (int p = 0; p < n; p++) {
      const int a = ring.order[static_cast<size_t>(p)];
      const int b = ring.order[static_cast<size_t>((p + 1) % n)];
      rate = p == 0 ? basis.rate(a, b) : std::min(rate, basis.rate(a, b));
      alpha = std::max(alpha, basis.alpha(a, b));
    }
    const bool reduces = schedule::reduces(collective.operation);
    load.steps = (both ? 2 : 1) * (n - 1);
    load.latency = load.steps * alpha;
    // Both directions of two ranks use the one link; likewise a rank's one network.
    const bool shared = n == 2 || (basis.cables.empty() && ranks_per_host(basis) == 1);
    load.wire = carried * (shared ? 2 : 1) / rate;
    load.busiest = {2.0 * 2 * load.steps, 4 * carried,
                    reduces ? (both ? carried : 2 * carried) : 0};
    load.average = load.busiest;
  }
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
