// Broadcast along chains: every cable carries data, any n and root.
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
// Cost.  n - 1 latencies, each with the time of one segment; half a vector a cable: for large
// vectors.
#include "algorithms/chain.h"

#include <algorithm>
#include <cstdlib>

#include "algorithms/draft.h"
#include "algorithms/order.h"

namespace tbccl::algorithms {

namespace {

// One chain as one rank sees it: ranks, -1 where there is none.
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

}  // namespace

Schedule make_chain(const Collective& collective, int rank, int size,
                    const schedule::Basis& basis) {
  if (size == 1) return make_alone("chain", collective);
  if (collective.operation != tbcclOpBroadcast) return make_chain_scan(collective, rank, size);
  const Chains chains(collective, basis);
  Draft draft("chain", collective, rank, size, chains.halves() ? 2 : 1, true);
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

Cost cost_chain(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  Load load;
  if (n == 1) return price(load, bytes, basis);
  if (collective.operation != tbcclOpBroadcast) return cost_chain_scan(collective, bytes, basis);
  const Chains chains(collective, basis);
  const double part = static_cast<double>(bytes) / (chains.halves() ? 2 : 1);
  const double first = std::min(part, kFirstSegment);
  double network = 0;  // of the root, whose network carries both chains
  for (int c = 0; c < chains.count(); c++) {
    double latency = 0;
    for (int d = 0; d < chains.length(c); d++) {
      const int a = chains.rank(c, d), b = chains.rank(c, d + 1);
      const double wire = part / basis.rate(a, b);
      latency += basis.alpha(a, b);
      if (d > 0) latency += first / basis.rate(a, b) + 2 * first * basis.cpu_byte;
      load.wire = std::max(load.wire, wire);
      if (d == 0 && uses_network(basis, a, b)) network += wire;
    }
    load.latency = std::max(load.latency, latency);
    load.steps = std::max(load.steps, chains.length(c));
  }
  // Half a vector each way may meet on the network of every rank, not only the root's.
  load.wire = std::max(load.wire, network);
  const double hops = chains.halves() ? 2.0 * (n - 1) : n - 1;  // messages in all
  load.busiest = {chains.halves() ? 4.0 : 2.0, 2 * static_cast<double>(bytes), 0};
  load.average = {2 * hops / n, 2.0 * static_cast<double>(bytes) * (n - 1) / n, 0};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
