// Reduce, reduce-scatter and scans by direct exchange: one step, and one fold in rank order.
//
// Plan.  Every contribution goes straight to the ranks whose result it is part of, which fold what
//   they get with their own, in rank order, rounded once: the bits of direct all-reduce.
//
//      reduce           everybody sends its vector to the root
//      reduce-scatter   r sends block p to p
//      scan             r sends its vector to the ranks above it; an exclusive scan's fold leaves
//                       the own contribution out, and rank 0 has no result
//
// Order.  Iteration i sends to r + 1 + i and receives from r - 1 - i, as in direct.cpp.
// Scratch.  One slot for each contribution. They may be rings that the fold drains where it waits
//   for nothing else that could wait for it (a scan in place overwrites what is being sent, so it
//   waits for release) and as long as all receives can be open at once.
// Cost.  One latency; the root of a reduce receives n - 1 vectors, the last rank of a scan too.
#include <algorithm>

#include "algorithms/direct.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

// Receives `mine` from each of `peers` ranks, downwards from the one below, into slots, and folds.
// `sources` contributions, of which the own one is number `own` (-1: not among them).
void receive_and_fold(Draft& draft, const Range& mine, int peers, Affine down, Affine order,
                      int sources, int own, int16_t overwritten) {
  const int first = draft.kept_slots();
  draft.scratch_slots(peers);
  const auto fold = static_cast<int16_t>(draft.next() + (peers > 0 ? 1 : 0));
  const bool rings = overwritten == kNoPhase && peers <= schedule::kOpenIterations;
  const int16_t received = draft.recv(peers, down, mine, fixed(0), scratch(counting(first)), {},
                                      rings ? fold : kNoPhase);
  order.base = first;  // contribution k came in iteration order.at(k)
  draft.fold(mine, sources, own, order, output(),
             with(draft.ready(), {done(received), released(overwritten)}));
}

Schedule make_reduce(Draft draft, int rank, int size, int root) {
  if (rank != root) {
    draft.send(1, fixed(root), draft.all(), fixed(0), draft.own(), draft.ready());
    return draft.take();
  }
  const Affine down = around(rank - 1, -1, size);
  receive_and_fold(draft, draft.all(), size - 1, down, down, size, rank, kNoPhase);
  return draft.take();
}

Schedule make_reduce_scatter(Draft draft, int rank, int size) {
  const Affine up = around(rank + 1, 1, size), down = around(rank - 1, -1, size);
  draft.send(size - 1, up, {up}, fixed(0), draft.own(up), draft.ready());
  receive_and_fold(draft, {fixed(rank)}, size - 1, down, down, size, rank, kNoPhase);
  return draft.take();
}

Schedule make_scan(Draft draft, int rank, int size, bool exclusive) {
  const int above = size - 1 - rank;
  const int16_t sent =
      draft.send(above, counting(rank + 1), draft.all(), fixed(0), draft.own(), draft.ready());
  if (exclusive && rank == 0) return draft.take();
  // Rank 0 has nothing to wait for but its own contribution.
  const Affine down = counting(rank - 1, -1);
  receive_and_fold(draft, draft.all(), rank, down, around(rank - 1, -1, std::max(size, 1)),
                   exclusive ? rank : rank + 1, exclusive ? -1 : rank,
                   draft.in_place() ? sent : kNoPhase);
  return draft.take();
}

}  // namespace

Schedule make_direct_reduction(const Collective& collective, int rank, int size) {
  Draft draft("direct", collective, rank, size, 1, true);
  switch (schedule::uniform(collective.operation)) {
    case tbcclOpReduce:
      return make_reduce(std::move(draft), rank, size, collective.root);
    case tbcclOpReduceScatter:
      return make_reduce_scatter(std::move(draft), rank, size);
    default:
      return make_scan(std::move(draft), rank, size, collective.operation == tbcclOpExScan);
  }
}

namespace {

// What the busiest rank copies: into its cell, and out of the others' or from its own input.
Cost cost_board_blocks(tbcclOperation_t operation, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  const double vector = static_cast<double>(bytes), peers = n - 1;
  const uint64_t block = bytes / static_cast<uint64_t>(schedule::vector_blocks(operation, n));
  const auto each = static_cast<double>(block);
  const bool in_parts = operation == tbcclOpReduceScatter || operation == tbcclOpAllToAll ||
                        operation == tbcclOpScatter;
  const int turns = board_turns(in_parts ? bytes : block, 1);
  switch (operation) {
    case tbcclOpAllToAll:
      return price_board(turns, 2 * vector, 0, bytes, basis);
    case tbcclOpAllGather:
      return price_board(turns, each + vector, 0, bytes, basis);
    case tbcclOpGather:
    case tbcclOpScatter:
      return price_board(turns, vector, 0, bytes, basis);
    default:  // reductions: of a block, or of a whole vector
      return price_board(turns, in_parts ? vector : each, peers * each, bytes, basis);
  }
}

}  // namespace

Cost cost_direct_blocks(const Collective& collective, uint64_t bytes,
                        const schedule::Basis& basis) {
  const tbcclOperation_t operation = schedule::uniform(collective.operation);
  const int n = basis.size;
  const double peers = n - 1, vector = static_cast<double>(bytes);
  const double block = vector / schedule::vector_blocks(operation, n);
  const double reduced = schedule::reduces(operation) ? peers * block : 0;
  if (basis.board && !schedule::varies(collective.operation))
    return cost_board_blocks(operation, bytes, basis);
  Load load;
  if (n == 1) return price(load, bytes, basis);
  load.steps = 1;
  if (operation == tbcclOpAllGather || operation == tbcclOpAllToAll ||
      operation == tbcclOpReduceScatter) {
    load.latency = all_pairs_alpha(basis);
    load.wire = all_pairs_wire(block, basis);
    load.busiest = {2 * peers, 2 * peers * block, reduced, reduced};
    load.average = load.busiest;
    return price(load, bytes, basis);
  }
  // One rank receives from all others, or sends to them; of a scan the last one.
  const bool scan = operation == tbcclOpScan || operation == tbcclOpExScan;
  const int busy = scan ? n - 1 : collective.root;
  double network = 0;
  for (int peer = 0; peer < n; peer++) {
    if (peer == busy) continue;
    const double ns = block / basis.rate(busy, peer);
    if (uses_network(basis, busy, peer)) network += ns;
    load.wire = std::max({load.wire, ns, network});
    load.latency = std::max(load.latency, basis.alpha(busy, peer));
  }
  load.busiest = {peers, peers * block, reduced, reduced};
  const double share = scan ? 1 : 2.0 / n;  // half of n (n - 1) messages; n - 1 of them
  load.average = {share * peers, share * peers * block, reduced / (scan ? 2 : n),
                  reduced / (scan ? 2 : n)};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
