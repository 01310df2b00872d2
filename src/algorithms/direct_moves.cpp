// All-gather, gather, scatter and all-to-all by direct exchange: one step.
//
// Plan.  Every block goes straight from the rank that has it to each rank that wants it:
//
//      all-gather   r sends its block to everybody, and receives block s from s
//      gather       everybody sends its block to the root
//      scatter      the root sends block p to p
//      all-to-all   r sends block p of its input to p, and receives block s of its output from s
//
//   One's own block is copied. So it also serves the forms with variable counts, and ranks that
//   know no other lengths than their own.
// Order.  Iteration i sends to r + 1 + i and receives from r - 1 - i: the two ends of a message are
//   the same iteration, so however few iterations are open at once, the open ones meet; and no rank
//   is everybody's first.
// In place.  Only all-to-all receives where it sends from. A receive that waited for the release of
//   what lies there would wait for the other end's receive, which waits likewise: so what is to be
//   sent is copied to scratch first.
// Cost.  One latency. On a full mesh, and for what a root sends or receives, the lower bound.
#include "algorithms/direct.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

struct Peers {
  Peers(int rank, int size)
      : count(size - 1), up(around(rank + 1, 1, size)), down(around(rank - 1, -1, size)) {}
  int count;
  Affine up, down;
};

Schedule make_all_gather(Draft draft, const Peers& peers, int rank) {
  const Range mine{fixed(rank)};
  draft.send(peers.count, peers.up, mine, fixed(0), draft.own(), {});
  draft.recv(peers.count, peers.down, {peers.down}, fixed(0), output(), {});
  if (!draft.in_place()) draft.copy(mine, input(), output(), false, {});
  return draft.take();
}

Schedule make_gather(Draft draft, const Peers& peers, int rank, int root) {
  const Range mine{fixed(rank)};
  if (rank != root) {
    draft.send(1, fixed(root), mine, fixed(0), draft.own(), {});
    return draft.take();
  }
  draft.recv(peers.count, peers.down, {peers.down}, fixed(0), output(), {});
  if (!draft.in_place()) draft.copy(mine, input(), output(), false, {});
  return draft.take();
}

Schedule make_scatter(Draft draft, const Peers& peers, const Collective& collective, int rank) {
  const Range mine{fixed(rank)};
  if (rank != collective.root) {
    draft.recv(1, fixed(collective.root), mine, fixed(0), output(), {});
    return draft.take();
  }
  draft.send(peers.count, peers.up, {peers.up}, fixed(0), input(), {});
  if (!collective.in_place) draft.copy(mine, input(), output(), false, {});
  return draft.take();
}

Schedule make_all_to_all(Draft draft, const Peers& peers, bool in_place, int rank, int size) {
  const Affine from = around(rank - 1, -1, size, size);  // blocks of the output
  Operand sent = input();
  int16_t saved = kNoPhase;
  if (in_place) {
    draft.scratch_slots(peers.count);
    sent = scratch(counting(0));
    saved = draft.copy_each(peers.count, {peers.up}, input(), sent);
  }
  draft.send(peers.count, peers.up, {peers.up}, fixed(0), sent, {done(saved, 0)});
  draft.recv(peers.count, peers.down, {from}, fixed(0), output(), {released(saved)});
  if (!in_place) draft.copy({fixed(rank)}, input(), output(fixed(size)), false, {});
  return draft.take();
}

}  // namespace

Schedule make_direct_move(const Collective& collective, int rank, int size) {
  Draft draft("direct", collective, rank, size, 1, true);
  const Peers peers(rank, size);
  switch (schedule::uniform(collective.operation)) {
    case tbcclOpGather:
      return make_gather(std::move(draft), peers, rank, collective.root);
    case tbcclOpScatter:
      return make_scatter(std::move(draft), peers, collective, rank);
    case tbcclOpAllToAll:
      return make_all_to_all(std::move(draft), peers, collective.in_place, rank, size);
    default:
      return make_all_gather(std::move(draft), peers, rank);
  }
}

}  // namespace tbccl::algorithms
