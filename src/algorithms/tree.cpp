// Broadcast down a binomial tree, and reduce up the same tree: log2 n steps, any n and root.
//
// Plan.  Let v be the rank counted from the root. v receives from v without its lowest set bit,
//   and sends to v + b for every power of two b below that bit, the largest subtree first:
//
//            0
//        +---+---+             n = 8:  0 -> 4 -> 6 -> 7
//        4   2   1                     0 -> 2 -> 3,  4 -> 5,  0 -> 1
//       +-+  +
//       6 5  3                 the deepest path starts first
//       +
//       7
//
//   A rank passes on every byte as soon as it has it: the engine streams.
// Reduce.  The same messages backwards: v combines its own contribution with those of its subtrees,
//   the smallest first, which is the first to be ready, and sends the sum to its parent. With root
//   0 that is rank order.
// Cost.  log2 n latencies; the root sends, or receives, log2 n vectors: for small vectors.
#include <algorithm>
#include <bit>

#include "algorithms/algorithms.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

// The first power of two that is not below v's children: its lowest set bit, or for the root the
// smallest power of two that is at least n.
int reach(int v, int n) {
  return v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : v & -v;
}

}  // namespace

namespace {

Schedule make_reduce(const Collective& collective, int rank, int size) {
  Draft draft("tree", collective, rank, size, 1, false);
  const int v = (rank - collective.root + size) % size;
  const auto rank_of = [&](int w) { return fixed((w + collective.root) % size); };
  const bool root = v == 0;
  const bool leaf = v % 2 == 1 || v + 1 >= size;
  if (!root && !leaf) draft.scratch_slots(1);
  const Operand sum = root ? output() : scratch(fixed(draft.kept_slots()));
  Operand from = draft.own();
  std::vector<Dep> ready = draft.ready();
  for (int b = 1; b < reach(v, size) && v + b < size; b *= 2) {
    const bool last = 2 * b >= reach(v, size) || v + 2 * b >= size;
    ready = {done(draft.recv_reduce(1, rank_of(v + b), draft.all(), fixed(0), from, sum, false,
                                    root && last, ready))};
    from = sum;
  }
  if (!root) draft.send(1, rank_of(v - (v & -v)), draft.all(), fixed(0), from, ready);
  return draft.take();
}

}  // namespace

Schedule make_tree(const Collective& collective, int rank, int size, const schedule::Basis&) {
  if (size == 1) return make_alone("tree", collective);
  if (collective.operation == tbcclOpReduce) return make_reduce(collective, rank, size);
  Draft draft("tree", collective, rank, size, 1, true);
  const int v = (rank - collective.root + size) % size;
  const auto rank_of = [&](int w) { return fixed((w + collective.root) % size); };
  int16_t received = kNoPhase;
  Operand from = draft.own();
  if (v != 0) {
    received = draft.recv(1, rank_of(v - (v & -v)), draft.all(), fixed(0), output(), {});
    from = output();
  }
  for (int b = reach(v, size) / 2; b >= 1; b /= 2)
    if (v + b < size) draft.send(1, rank_of(v + b), draft.all(), fixed(0), from, {done(received)});
  if (v == 0 && !draft.in_place()) draft.copy(draft.all(), input(), output(), false, {});
  return draft.take();
}

Cost cost_tree(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  const double vector = static_cast<double>(bytes);
  Load load;
  if (n == 1) return price(load, bytes, basis);
  for (int v = 0; v < n; v += sample_stride(n)) {
    double network = 0;
    for (int b = reach(v, n) / 2; b >= 1; b /= 2) {
      if (v + b >= n) continue;
      const int parent = (v + collective.root) % n, child = (v + b + collective.root) % n;
      const double wire = vector / basis.rate(parent, child);
      if (uses_network(basis, parent, child)) network += wire;
      load.wire = std::max({load.wire, wire, network});
    }
  }
  const int depth = reach(0, n) == 1 ? 0 : std::countr_zero(static_cast<unsigned>(reach(0, n)));
  // The deepest path: the root's last-numbered descendants, one bit a hop.
  int at = 0, hops = 0;
  for (int b = reach(0, n) / 2; b >= 1; b /= 2)
    if (at + b < n) {
      load.latency += basis.alpha((at + collective.root) % n, (at + b + collective.root) % n);
      at += b;
      hops++;
    }
  load.steps = hops;
  const double reduced = collective.operation == tbcclOpReduce ? vector : 0;  // a message
  load.busiest = {static_cast<double>(depth), depth * vector, depth * reduced};
  load.average = {2.0 * (n - 1) / n, 2.0 * (n - 1) / n * vector, (n - 1) * reduced / n};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
