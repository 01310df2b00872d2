// Reduce-scatter by recursive halving: ceil(log2 n) steps, any n.
//
// Plan.  All ranks stand on a circle. Before a step a rank has partial sums of so many blocks from
//   its own on: n, and in the end 1. In the step it keeps the first half, and sends the second half
//   to the rank that it begins with, which combines it with what it keeps itself:
//
//   n = 5:   rank r has  r .. r+4    sends r+3 r+4    to r+3, gets r r+1    from r-3
//                        r .. r+2    sends r+2        to r+2, gets r        from r-2
//                        r r+1       sends r+1        to r+1, gets r        from r-1
//
//   So no rank has to be folded in first where n is no power of two, and nothing is sent twice.
//   Blocks that pass the end of the vector are two messages.
// Sums.  One slot for the vector, in which every block has its place. What is sent is never written
//   again, so nothing waits for a release. A block that is first kept in a step that brings it
//   nothing (the middle one of an odd number) is copied there.
// Four ranks on a ring of cables.  The circle's first step would cross the ring. Instead blocks are
//   cut in two halves that walk the two matchings of the ring in different order, so that every
//   step has a cable of its own:
//
//        position:  0 -- 1 -- 2 -- 3 -- 0        one half: 01 23, then 12 30
//                                                the other: 12 30, then 01 23
//
//   A rank gives the partner of the first step what that one and its partner of the second step
//   will own, and the partner of the second step the sum of what is its.
// Cost.  log2 n latencies, n - 1 blocks: as few of both as there can be. On the ring of four every
//   cable carries 3/8 of a vector each way, the lower bound, in 2 steps instead of 3.
#include <algorithm>
#include <set>

#include "algorithms/circle.h"
#include "algorithms/halving.h"
#include "algorithms/order.h"

namespace tbccl::algorithms {

namespace {

// The order around a ring of four whose neighbours share cables; empty: it is no such ring.
std::vector<int> ring_of_four(const schedule::Basis& basis) {
  if (basis.size != 4 || basis.cables.empty()) return {};
  RingOrder ring = ring_order(basis);
  for (size_t p = 0; p < 4; p++)
    if (!basis.joined(ring.order[p], ring.order[(p + 1) % 4])) return {};
  return std::move(ring.order);
}

// Partner by position: in the matching 01 23, or 12 30.
int partner(int position, int matching) { return position ^ (matching == 0 ? 1 : 3); }

// One half of each block. Piece 2 b + half is that of block b.
void add_half(Draft& draft, const std::vector<int>& ring, int rank, int half) {
  const auto position = static_cast<int>(std::find(ring.begin(), ring.end(), rank) - ring.begin());
  const auto at = [&](int p) { return ring[static_cast<size_t>(p)]; };
  const int near = partner(position, half), last = partner(position, 1 - half);
  const int beyond = partner(near, 1 - half);
  const auto pieces = [&](int a, int b) {  // of the blocks of two positions
    return Range{counting(2 * at(a) + half, 2 * (at(b) - at(a)))};
  };
  const auto piece = [&](int p) { return Range{fixed(2 * at(p) + half)}; };
  const Operand sums = scratch(counting(draft.kept_slots() + 2 * half));
  const Affine first = counting(3 * half), second = fixed(3 * half + 2);  // tags
  // What goes on is first.
  const Range given = pieces(beyond, near), kept = pieces(last, position);
  draft.send(2, fixed(at(near)), given, first, draft.own(given.piece), draft.ready());
  const int16_t summed = draft.recv_reduce(2, fixed(at(near)), kept, first, draft.own(kept.piece),
                                           sums, near < position, false, draft.ready());
  draft.send(1, fixed(at(last)), piece(last), second, sums, {done(summed, 0)});
  const Operand sum = scratch(fixed(sums.slot.at(1)));
  draft.recv_reduce(1, fixed(at(last)), piece(position), second, sum, output(), last < position,
                    true, {done(summed, 1)});
}

Schedule make_on_ring(const Collective& collective, int rank, const std::vector<int>& ring) {
  Draft draft("halving", collective, rank, 4, 2, false);
  draft.scratch_slots(4);
  for (int half : {0, 1}) add_half(draft, ring, rank, half);
  return draft.take();
}

// Which phase has made the sum of each block, kNoPhase: it is the own contribution yet.
class Made {
 public:
  explicit Made(int size) : phase_(static_cast<size_t>(size), kNoPhase) {}
  void set(const Range& blocks, int16_t phase) {
    for (int b = 0; b < blocks.pieces; b++) at(blocks, b) = phase;
  }
  std::vector<Dep> deps(const Range& blocks) {
    std::set<int16_t> phases;
    for (int b = 0; b < blocks.pieces; b++) phases.insert(at(blocks, b));
    std::vector<Dep> result;
    for (const int16_t phase : phases) result.push_back(done(phase));
    return result;
  }

 private:
  int16_t& at(const Range& blocks, int b) {
    return phase_[static_cast<size_t>(blocks.piece.base + b)];
  }
  std::vector<int16_t> phase_;
};

Schedule make_on_circle(const Collective& collective, int rank, int size) {
  Draft draft("halving", collective, rank, size, 1, false, Apart::kOneSlot);
  const std::vector<int> held = growth(size);
  // A scaled contribution lies in scratch already, and may be overwritten.
  const bool kept = draft.kept_slots() > 0;
  const Operand sums = kept ? draft.own() : scratch(fixed(0), 0);
  const auto steps = static_cast<int>(held.size()) - 1;
  draft.scratch_slots(kept || steps == 1 ? 0 : 1);
  Made made(size);
  for (int k = steps - 1; k >= 0; k--) {
    const auto now = static_cast<size_t>(k);
    const int away = held[now], count = held[now + 1] - away;
    const bool first = k == steps - 1, last = k == 0;
    const Operand from = first ? draft.own() : sums;
    const Affine above = fixed((rank + away) % size), below = fixed((rank + size - away) % size);
    const auto ready = [&](const Range& blocks) {
      return first ? draft.ready() : made.deps(blocks);
    };
    int part = 0;
    for (const Range& given : on_circle(rank + away, count, size))
      draft.send(1, above, given, fixed(2 * k + part++), from, ready(given));
    part = 0;
    for (const Range& got : on_circle(rank, count, size))
      made.set(got, draft.recv_reduce(1, below, got, fixed(2 * k + part++), from,
                                      last ? output() : sums, true, last, ready(got)));
    const Range middle{fixed((rank + away - 1) % size)};
    if (first && count < away)
      made.set(middle, kept ? draft.ready().front().phase
                            : draft.copy(middle, draft.own(), sums, false, {}));
  }
  return draft.take();
}

Cost cost_on_ring(const std::vector<int>& ring, uint64_t bytes, const schedule::Basis& basis) {
  const double block = static_cast<double>(bytes) / 4;
  Load load;
  load.steps = 2;
  for (size_t p = 0; p < 4; p++) {
    const int a = ring[p], b = ring[(p + 1) % 4];
    load.latency = std::max(load.latency, 2 * basis.alpha(a, b));
    load.wire = std::max(load.wire, 1.5 * block / basis.rate(a, b));
  }
  load.busiest = {12, 6 * block, 3 * block, 3 * block};
  load.average = load.busiest;
  return price(load, bytes, basis);
}

}  // namespace

Schedule make_halving_blocks(const Collective& collective, int rank, int size,
                             const schedule::Basis& basis) {
  const std::vector<int> ring = ring_of_four(basis);
  return ring.empty() ? make_on_circle(collective, rank, size)
                      : make_on_ring(collective, rank, ring);
}

Cost cost_halving_blocks(uint64_t bytes, const schedule::Basis& basis) {
  if (const std::vector<int> ring = ring_of_four(basis); !ring.empty())
    return cost_on_ring(ring, bytes, basis);
  const double block = static_cast<double>(bytes) / basis.size;
  Load load = circle_load(block, basis);
  load.busiest.reduced = load.average.reduced = block * (basis.size - 1);
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
