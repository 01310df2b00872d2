// All-to-all in pairs: few messages at a time, any n, also with variable counts.
//
// Plan.  In step j every rank exchanges blocks with the two ranks that are 1 + j away from it, one
//   on either side; if n is even, one more exchange with the rank opposite makes it complete:
//
//   n = 6:   step 0   r-1 <--> r <--> r+1       step 1   r-2 <--> r <--> r+2       r <--> r+3
//
//   The two ends of a message are the same step, and the two blocks of an exchange move in the same
//   step. So all ranks are alike, no rank is everybody's at once, and of a long list of messages
//   only those of kSteps steps are under way: step j begins when that of step j - kSteps has ended,
//   on each side by itself.
// In place.  What is received from a rank lies where that which is sent to it lay. As both move in
//   one step, the step copies the block to a slot, one of kSteps for each side, sends it from
//   there, and receives when the copy has been made: a few blocks of scratch, where direct exchange
//   copies nearly the whole vector.
// Cost.  The bytes of direct exchange in more steps: for many ranks and long blocks, which would
//   all be in each other's way. The formula knows no such crowds, so that only a tuning file, a
//   tuner or TBCCL_ALGO chooses it where links are equal.
#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

constexpr int kSteps = 2;  // at a time: four messages each way

int both_sides(int size) { return (size - 1) / 2; }  // steps with an exchange on each side

// Iteration i waits for the end of iteration i - kSteps of phases that have more than that many.
std::vector<Dep> after(int repeat, std::initializer_list<int16_t> phases) {
  std::vector<Dep> deps;
  for (const int16_t phase : phases)
    if (repeat > kSteps) deps.push_back(released(phase, -kSteps));
  return deps;
}

// With the ranks on one side; from `first_slot` on scratch is for it.
void exchange(Draft& draft, bool in_place, int rank, int size, int side, int first_slot) {
  const int repeat = both_sides(size);
  const Affine peer = around(rank + side, side, size);
  const Affine from = around(rank + side, side, size, size);
  const int16_t first = draft.next();
  const auto second = static_cast<int16_t>(first + 1);
  if (!in_place) {
    draft.send(repeat, peer, {peer}, fixed(0), input(), after(repeat, {first, second}));
    draft.recv(repeat, peer, {from}, fixed(0), output(), after(repeat, {second}));
    return;
  }
  const Operand slot = scratch(around(0, 1, kSteps, first_slot));
  draft.copy_each(repeat, {peer}, input(), slot, after(repeat, {second}));
  draft.send(repeat, peer, {peer}, fixed(0), slot, {done(repeat > 0 ? first : kNoPhase, 0)});
  draft.recv(repeat, peer, {from}, fixed(0), output(),
             {released(repeat > 0 ? first : kNoPhase, 0)});
}

void exchange_opposite(Draft& draft, bool in_place, int rank, int size, int slot) {
  const int opposite = (rank + size / 2) % size;
  const Affine peer = fixed(opposite);
  const Operand sent = in_place ? scratch(fixed(slot)) : input();
  const int16_t saved = in_place ? draft.copy({peer}, input(), sent, false, {}) : kNoPhase;
  draft.send(1, peer, {peer}, fixed(0), sent, {done(saved)});
  draft.recv(1, peer, {fixed(size + opposite)}, fixed(0), output(), {released(saved)});
}

// ns that links other than networks need: one after the other, kSteps at a time.
double links_wire(double block, int steps, const schedule::Basis& basis) {
  const int n = basis.size;
  if (basis.cables.empty()) return ranks_per_host(basis) > 1 ? steps * block / basis.local.rate : 0;
  double longest = 0;
  for (int rank = 0; rank < n; rank += sample_stride(n)) {
    double ns = 0;
    for (int away = 1; away <= n / 2; away += kSteps) {
      double slowest = 0;
      for (int d = away; d < away + kSteps && d <= n / 2; d++)
        for (int peer : {(rank + d) % n, (rank + n - d) % n})
          if (!uses_network(basis, rank, peer))
            slowest = std::max(slowest, block / basis.rate(rank, peer));
      ns += slowest;
    }
    longest = std::max(longest, ns);
  }
  return longest;
}

}  // namespace

Schedule make_pairwise(const Collective& collective, int rank, int size, const schedule::Basis&) {
  if (size == 1) return make_alone("pairwise", collective);
  Draft draft("pairwise", collective, rank, size, 1, true);
  const bool in_place = collective.in_place;
  const int slots = std::min(kSteps, both_sides(size));  // of each side
  const bool opposite = size % 2 == 0;
  if (in_place) draft.scratch_slots(2 * slots + (opposite ? 1 : 0));
  exchange(draft, in_place, rank, size, 1, 0);
  exchange(draft, in_place, rank, size, -1, slots);
  if (opposite) exchange_opposite(draft, in_place, rank, size, 2 * slots);
  if (!in_place) draft.copy({fixed(rank)}, input(), output(fixed(size)), false, {});
  return draft.take();
}

Cost cost_pairwise(const Collective&, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  Load load;
  if (n == 1) return price(load, bytes, basis);
  const double peers = n - 1, block = static_cast<double>(bytes) / n;
  load.steps = std::max((both_sides(n) + kSteps - 1) / kSteps, 1);
  load.latency = load.steps * all_pairs_alpha(basis);
  load.wire = std::max(all_pairs_wire(block, basis), links_wire(block, load.steps, basis));
  load.busiest = {2 * peers, 2 * peers * block, 0, 0};
  load.average = load.busiest;
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
