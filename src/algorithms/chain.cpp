// Broadcast and reduce along chains: every cable carries data, any n and root.
//
// Plan.  Ranks in ring order. If the ring is closed, the vector is cut in two: one half walks
//   forwards around it, the other backwards, each over n - 1 ranks:
//
//      root -> 1 -> 2 -> 3        first half      both directions of the ring's cables are busy and
//      root -> 3 -> 2 -> 1        second half     every cable carries half a vector each way
//
//   If it is an open line, or for two ranks, the whole vector walks from the root outwards.
//   A rank passes on every byte as soon as it has it (the engine streams), so the time is that of
//   one cable plus the way of the first segment.
// Reduce.  The same messages backwards: the far end of a chain sends its contribution, and every
//   rank on the way combines what comes with its own, before the root combines both chains with
//   its own. Sums wait in scratch: nobody but the root has a buffer for them.
// Cost.  n - 1 latencies, each with the time of one segment; half a vector a cable: for large
// vectors.
#include "algorithms/chain.h"

#include <algorithm>
#include <cstdlib>

#include "algorithms/draft.h"
#include "algorithms/order.h"

namespace tbccl::algorithms {

namespace {

bool is_scan(tbcclOperation_t operation) {
  return operation == tbcclOpScan || operation == tbcclOpExScan;
}

// One chain of a broadcast as one rank sees it: ranks, -1 where there is none. A reduce goes the
// other way.
struct Place {
  int from = -1, to = -1;
};

class Chains {
 public:
  Chains(const Collective& collective, const schedule::Basis& basis)
      : ring_(ring_order(basis)),
        size_(basis.size),
        root_(ring_.position(collective.root)),
        halves_(ring_.closed && size_ > 2) {}

  bool halves() const { return halves_; }
  int count() const { return 2; }
  int pieces() const { return halves_ ? 2 : 1; }
  int piece(int chain) const { return halves_ ? chain : 0; }
  int root() const { return root_; }
  const RingOrder& ring() const { return ring_; }

  // Ranks of a chain, not counting the root.
  int length(int chain) const {
    if (halves_) return size_ - 1;
    return chain == 0 ? size_ - 1 - root_ : root_;
  }
  int rank(int chain, int distance) const {
    const int position = chain == 0 ? root_ + distance : root_ - distance;
    return ring_.order[static_cast<size_t>((position + size_) % size_)];
  }
  // Hops from the root to a rank, -1: not on this chain.
  int distance(int chain, int of) const {
    const int ahead = ring_.position(of) - root_;
    if (halves_) return ((chain == 0 ? ahead : -ahead) + size_) % size_;
    return chain == 0 ? ahead : -ahead;
  }
  Place place(int chain, int of) const {
    const int d = distance(chain, of);
    if (d < 0) return {};
    return {d > 0 ? rank(chain, d - 1) : -1, d < length(chain) ? rank(chain, d + 1) : -1};
  }

 private:
  RingOrder ring_;
  int size_;
  int root_;  // position
  bool halves_;
};

Schedule make_broadcast(const Collective& collective, int rank, int size, const Chains& chains) {
  Draft draft("chain", collective, rank, size, chains.pieces(), true);
  for (int c = 0; c < chains.count(); c++) {
    const Place place = chains.place(c, rank);
    const Range range{fixed(chains.piece(c))};
    int16_t received = kNoPhase;
    if (place.from >= 0) received = draft.recv(1, fixed(place.from), range, fixed(c), output(), {});
    if (place.to >= 0)
      draft.send(1, fixed(place.to), range, fixed(c),
                 rank == collective.root ? draft.own() : output(), {done(received)});
  }
  if (rank == collective.root && !draft.in_place())
    draft.copy(draft.all(), input(), output(), false, {});
  return draft.take();
}

// The root combines the chains one after the other where both carry the whole vector.
Schedule make_root_of_reduce(Draft draft, const Chains& chains) {
  Operand from = draft.own();
  std::vector<Dep> ready = draft.ready();
  for (int c = 0; c < chains.count(); c++) {
    if (chains.length(c) == 0) continue;
    const bool last = chains.halves() || c + 1 == chains.count() || chains.length(c + 1) == 0;
    const Range range{fixed(chains.piece(c))};
    const int16_t combined = draft.recv_reduce(1, fixed(chains.rank(c, 1)), range, fixed(c), from,
                                               output(), true, last, ready);
    if (chains.halves()) continue;
    from = output();
    ready = {done(combined)};
  }
  return draft.take();
}

Schedule make_reduce(const Collective& collective, int rank, int size, const Chains& chains) {
  Draft draft("chain", collective, rank, size, chains.pieces(), false);
  if (rank == collective.root) return make_root_of_reduce(std::move(draft), chains);
  draft.scratch_slots(chains.pieces());
  for (int c = 0; c < chains.count(); c++) {
    const Place place = chains.place(c, rank);
    if (place.from < 0) continue;
    const Range range{fixed(chains.piece(c))};
    Operand sum = draft.own(range.piece);
    std::vector<Dep> ready = draft.ready();
    if (place.to >= 0) {
      const Operand slot = scratch(fixed(draft.kept_slots() + chains.piece(c)));
      ready = {done(
          draft.recv_reduce(1, fixed(place.to), range, fixed(c), sum, slot, true, false, ready))};
      sum = slot;
    }
    draft.send(1, fixed(place.from), range, fixed(c), sum, ready);
  }
  return draft.take();
}

}  // namespace

Schedule make_chain(const Collective& collective, int rank, int size,
                    const schedule::Basis& basis) {
  if (size == 1) return make_alone("chain", collective);
  if (is_scan(collective.operation)) return make_chain_scan(collective, rank, size);
  const Chains chains(collective, basis);
  return collective.operation == tbcclOpReduce ? make_reduce(collective, rank, size, chains)
                                               : make_broadcast(collective, rank, size, chains);
}

Cost cost_chain(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  Load load;
  if (n == 1) return price(load, bytes, basis);
  if (is_scan(collective.operation)) return cost_chain_scan(collective, bytes, basis);
  const Chains chains(collective, basis);
  const bool reduces = collective.operation == tbcclOpReduce;
  const double part = static_cast<double>(bytes) / chains.pieces();
  const double first = first_segment(part);
  const double held = 2 * basis.cpu_byte + (reduces ? basis.gamma : 0);  // ns a byte
  double network = 0;  // of the root, whose network carries both chains
  for (int c = 0; c < chains.count(); c++) {
    double latency = 0;
    for (int d = 0; d < chains.length(c); d++) {
      const int a = chains.rank(c, d), b = chains.rank(c, d + 1);
      const double wire = part / basis.rate(a, b);
      latency += basis.alpha(a, b);
      if (d > 0) latency += first / basis.rate(a, b) + first * held;
      load.wire = std::max(load.wire, wire);
      if (d == 0 && uses_network(basis, a, b)) network += wire;
    }
    load.latency = std::max(load.latency, latency);
    load.steps = std::max(load.steps, chains.length(c));
  }
  // Half a vector each way may meet on the network of every rank, not only the root's.
  load.wire = std::max(load.wire, network);
  const double hops = chains.halves() ? 2.0 * (n - 1) : n - 1;  // messages in all
  const double vector = static_cast<double>(bytes), reduced = reduces ? vector : 0;
  // In the middle of a line the root takes a whole vector from both sides.
  const bool middle = !chains.halves() && chains.length(0) > 0 && chains.length(1) > 0;
  load.busiest = {chains.halves() ? 4.0 : 2.0, 2 * vector, (middle ? 2 : 1) * reduced};
  load.average = {2 * hops / n, 2 * vector * (n - 1) / n, reduced * (n - 1) / n};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
