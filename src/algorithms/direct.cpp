// All-reduce, barrier and broadcast by direct exchange: one step.
//
// Plan.  Every rank sends its whole vector to everybody and folds what it gets, with its own, in
//   rank order:
//
//        0 ---> 1     every rank:  send x(own) to r+1, r+2, ...
//        | \  / |                  recv x(k) into scratch from r-1, r-2, ...
//        |  \/  |                  result = x(0) op x(1) op ... op x(n-1), rounded once
//        |  /\  |
//        3 ---> 2
//
// Order.  Iteration i sends to r + 1 + i and receives from r - 1 - i: the two ends of a message are
//   the same iteration, so however few iterations are open at once, the open ones meet.
// Scratch.  One slot a peer. Out of place the slots may be rings that the fold drains, as long as
//   all receives can be open at once; in place the fold overwrites what is being sent, so it waits
//   for release, which must not wait for the fold: whole slots.
// Cost.  One latency; n - 1 vectors each way: for small vectors, and few ranks.
// Broadcast.  The root sends its vector to everybody. For few ranks, or where a board makes one
//   copy of it serve all.
// All other operations: direct_moves.cpp and direct_reductions.cpp.
#include "algorithms/direct.h"

#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {
namespace {

Schedule make_broadcast(const Collective& collective, int rank, int size) {
  Draft draft("direct", collective, rank, size, 1, true);
  if (rank != collective.root) {
    draft.recv(1, fixed(collective.root), draft.all(), fixed(0), output(), {});
    return draft.take();
  }
  draft.send(size - 1, around(rank + 1, 1, size), draft.all(), fixed(0), draft.own(), {});
  if (!draft.in_place()) draft.copy(draft.all(), input(), output(), false, {});
  return draft.take();
}

Cost cost_broadcast(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const double peers = basis.size - 1, vector = static_cast<double>(bytes);
  if (basis.board) return price_board(board_turns(bytes, 1), 2 * vector, 0, bytes, basis);
  Load load;
  if (basis.size == 1) return price(load, bytes, basis);
  load.steps = 1;
  double network = 0;
  for (int peer = 0; peer < basis.size; peer++) {
    if (peer == collective.root) continue;
    const double ns = vector / basis.rate(collective.root, peer);
    if (uses_network(basis, collective.root, peer)) network += ns;
    load.wire = std::max({load.wire, ns, network});
    load.latency = std::max(load.latency, basis.alpha(collective.root, peer));
  }
  load.busiest = {peers, peers * vector, 0, 0};
  load.average = {2 * peers / basis.size, 2 * peers / basis.size * vector, 0, 0};
  return price(load, bytes, basis);
}

}  // namespace

Schedule make_direct(const Collective& collective, int rank, int size, const schedule::Basis&) {
  if (size == 1) return make_alone("direct", collective);
  switch (schedule::uniform(collective.operation)) {
    case tbcclOpAllReduce:
    case tbcclOpBarrier:
      break;
    case tbcclOpBroadcast:
      return make_broadcast(collective, rank, size);
    case tbcclOpReduce:
    case tbcclOpReduceScatter:
    case tbcclOpScan:
    case tbcclOpExScan:
      return make_direct_reduction(collective, rank, size);
    default:
      return make_direct_move(collective, rank, size);
  }
  Draft draft("direct", collective, rank, size, 1, true);
  const int peers = size - 1;
  const Affine source = around(rank - 1, -1, size);
  draft.scratch_slots(peers);
  const int16_t sent = draft.send(peers, around(rank + 1, 1, size), draft.all(), fixed(0),
                                  draft.own(), draft.ready());
  const auto fold = static_cast<int16_t>(draft.next() + 1);
  const bool rings = !draft.in_place() && peers <= schedule::kOpenIterations;
  const int16_t received = draft.recv(peers, source, draft.all(), fixed(0), scratch(counting(0)),
                                      {}, rings ? fold : kNoPhase);
  // Contribution k came in iteration (rank - 1 - k) mod size.
  draft.fold(draft.all(), size, rank, source, output(),
             with(draft.ready(), {done(received), released(draft.in_place() ? sent : kNoPhase)}));
  return draft.take();
}

Cost cost_direct(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  if (collective.operation == tbcclOpBroadcast) return cost_broadcast(collective, bytes, basis);
  if (collective.operation != tbcclOpAllReduce && collective.operation != tbcclOpBarrier)
    return cost_direct_blocks(collective, bytes, basis);
  const double peers = basis.size - 1, vector = static_cast<double>(bytes);
  if (basis.board) {
    return price_board(board_turns(bytes, 1), vector, peers * vector, bytes, basis);
  }
  Load load;
  load.steps = basis.size > 1 ? 1 : 0;
  load.latency = load.steps * all_pairs_alpha(basis);
  load.wire = basis.size > 1 ? all_pairs_wire(vector, basis) : 0;
  load.busiest = {2 * peers, 2 * peers * vector, peers * vector, peers * vector};
  load.average = load.busiest;
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
