// All-reduce by direct reduce-scatter and direct all-gather: two steps.
//
// Plan.  n pieces; rank r is responsible for piece r.
//
//   step 1   everybody sends piece p to rank p, which folds the n contributions in rank order:
//            the same operations as direct exchange, so the same bits
//   step 2   rank p sends the finished piece p to everybody
//
// Order.  Step 1 walks upwards (r + 1, r + 2, ...), step 2 downwards: so the receive of piece
//   r + 1 + i in step 2 is iteration i, like the send of that piece in step 1, whose release it
//   waits for (in place it overwrites what was sent). The two ends of a message are the same
//   iteration in both steps.
// Scratch.  n - 1 slots of one piece; rings that the fold drains, as long as all receives of
//   step 1 can be open at once.
// Cost.  Two latencies, 2 (n - 1) / n vectors each way: on a full mesh every cable carries 2 / n,
//   the lower bound.
#include "algorithms/algorithms.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

Schedule make_twostep(const Collective& collective, int rank, int size, const schedule::Basis&) {
  if (size == 1) return make_alone("twostep", collective);
  Draft draft("twostep", collective, rank, size, size, true);
  const int peers = size - 1;
  const Affine up = around(rank + 1, 1, size), down = around(rank - 1, -1, size);
  const Range mine{fixed(rank)};
  draft.scratch_slots(peers);

  const int16_t scattered = draft.send(peers, up, {up}, fixed(0), draft.own(), draft.ready());
  const auto fold = static_cast<int16_t>(draft.next() + 1);
  const bool rings = peers <= schedule::kOpenIterations;
  const int16_t received =
      draft.recv(peers, down, mine, fixed(0), scratch(counting(0)), {}, rings ? fold : kNoPhase);
  // Contribution k came in iteration (rank - 1 - k) mod size.
  draft.fold(mine, size, rank, down, output(), with(draft.ready(), {done(received)}));

  draft.send(peers, down, mine, fixed(1), output(), {done(fold)});
  std::vector<Dep> overwrites;
  if (draft.in_place()) overwrites = {released(scattered, 0)};
  draft.recv(peers, up, {up}, fixed(1), output(), overwrites);
  return draft.take();
}

Cost cost_twostep(const Collective&, uint64_t bytes, const schedule::Basis& basis) {
  const double peers = basis.size - 1, piece = static_cast<double>(bytes) / basis.size;
  if (basis.board) {
    return price_board(board_turns(bytes, 2), (2 * basis.size - 1) * piece, peers * piece, bytes,
                       basis);
  }
  Load load;
  load.steps = basis.size > 1 ? 2 : 0;
  load.latency = load.steps * all_pairs_alpha(basis);
  load.wire = basis.size > 1 ? all_pairs_wire(2 * piece, basis) : 0;
  load.busiest = {4 * peers, 4 * peers * piece, peers * piece, peers * piece};
  load.average = load.busiest;
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
