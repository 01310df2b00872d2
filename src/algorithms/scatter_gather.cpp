// Broadcast by scatter and all-gather, reduce by reduce-scatter and gather: every link carries
// data, any n and root.
//
// Plan.  Count the ranks from the root: 0 is the root, 1 .. m the others (m = n - 1). The vector is
//   cut into m pieces; rank v gets piece v - 1 from the root, and passes it on to all the others
//   but the root, which has it:
//
//        0 --- 1      0 -> 1 piece 0,  0 -> 2 piece 1,  0 -> 3 piece 2
//        | \ / |      1 -> 2, 3 piece 0,  2 -> 1, 3 piece 1,  3 -> 1, 2 piece 2
//        | / \ |
//        3 --- 2      every link that does not end at the root carries one piece each way
//
//   A piece is passed on as it comes (the engine streams), so scatter and all-gather go on at the
//   same time: the time is that of one piece on a full mesh, and where each rank has one network
//   that of the vector, which a root must send at least once.
// Order.  v sends to v + 1, v + 2, ... and to v - 1, v - 2, ...; it receives in the same order of
//   distance, so the two ends of a message are the same iteration, and however few are open at
//   once, the open ones meet.
// Reduce.  The same messages backwards: v receives piece v - 1 of all the others but the root,
// folds
//   them with its own, counted from the root, and sends the sum to the root, which combines it with
//   its own contribution. Contribution k waits in slot k, and the sum takes the own one's place.
// Cables.  Around a ring of cables the pieces would take the ways of chain.cpp's halves, so there
// is
//   no form of its own for rings: where pairs of ranks have no cable this is not the algorithm.
// Cost.  Two latencies; a piece a link each way, m pieces where links share a network: for large
//   vectors, where every pair has a link of its own or all share a network.
#include "algorithms/algorithms.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

// What a rank that is not the root knows: its number counted from the root, and those on both
// sides.
struct Place {
  Place(const Collective& collective, int rank, int size)
      : number((rank - collective.root + size) % size),
        above(size - 1 - number),
        below(number - 1),
        up(around(rank + 1, 1, size)),
        down(around(rank - 1, -1, size)) {}
  Range mine() const { return {fixed(number - 1)}; }
  Range of_above() const { return {counting(number)}; }
  Range of_below() const { return {counting(number - 2, -1)}; }

  int number, above, below;
  Affine up, down;  // ranks
};

const Affine kTag = fixed(0);

Schedule make_broadcast(Draft draft, const Collective& collective, int rank, int size) {
  if (rank == collective.root) {
    draft.send(size - 1, around(rank + 1, 1, size), {counting(0)}, kTag, draft.own(), {});
    if (!draft.in_place()) draft.copy(draft.all(), input(), output(), false, {});
    return draft.take();
  }
  const Place at(collective, rank, size);
  const int16_t received = draft.recv(1, fixed(collective.root), at.mine(), kTag, output(), {});
  draft.send(at.above, at.up, at.mine(), kTag, output(), {done(received)});
  draft.send(at.below, at.down, at.mine(), kTag, output(), {done(received)});
  draft.recv(at.below, at.down, at.of_below(), kTag, output(), {});
  draft.recv(at.above, at.up, at.of_above(), kTag, output(), {});
  return draft.take();
}

Schedule make_reduce(Draft draft, const Collective& collective, int rank, int size) {
  const int others = size - 1;
  if (rank == collective.root) {
    const Range each{counting(0)};
    draft.recv_reduce(others, around(rank + 1, 1, size), each, kTag, draft.own(each.piece),
                      output(), false, true, draft.ready());
    return draft.take();
  }
  const Place at(collective, rank, size);
  Operand sum = draft.own(at.mine().piece);
  std::vector<Dep> ready = draft.ready();
  if (others > 1) {
    const int first = draft.kept_slots(), own = at.number - 1;
    draft.scratch_slots(others);
    draft.send(at.above, at.up, at.of_above(), kTag, draft.own(at.of_above().piece), ready);
    draft.send(at.below, at.down, at.of_below(), kTag, draft.own(at.of_below().piece), ready);
    const int16_t below =
        draft.recv(at.below, at.down, at.mine(), kTag, scratch(counting(first + own - 1, -1)), {});
    const int16_t above =
        draft.recv(at.above, at.up, at.mine(), kTag, scratch(counting(first + own + 1)), {});
    sum = scratch(fixed(first + own));
    ready = {done(draft.fold(at.mine(), others, own, counting(first), sum,
                             with(ready, {done(below), done(above)}), false))};
  }
  draft.send(1, fixed(collective.root), at.mine(), kTag, sum, ready);
  return draft.take();
}

}  // namespace

Schedule make_scatter_gather(const Collective& collective, int rank, int size,
                             const schedule::Basis&) {
  if (size == 1) return make_alone("scatter_gather", collective);
  const bool reduces = collective.operation == tbcclOpReduce;
  Draft draft("scatter_gather", collective, rank, size, size - 1, !reduces);
  return reduces ? make_reduce(std::move(draft), collective, rank, size)
                 : make_broadcast(std::move(draft), collective, rank, size);
}

Cost cost_scatter_gather(const Collective& collective, uint64_t bytes,
                         const schedule::Basis& basis) {
  const int n = basis.size;
  Load load;
  if (n == 1) return price(load, bytes, basis);
  const double others = n - 1, vector = static_cast<double>(bytes), piece = vector / others;
  const double first = first_segment(piece);
  const bool reduces = collective.operation == tbcclOpReduce;
  load.steps = n > 2 ? 2 : 1;
  load.latency = load.steps * all_pairs_alpha(basis);
  if (n > 2)
    load.latency += first / basis.rate(collective.root, (collective.root + 1) % n) +
                    first * (2 * basis.cpu_byte + (reduces ? basis.gamma : 0));
  // Between the root and everybody a piece, and between the others one each way.
  load.wire = all_pairs_wire(piece, basis);
  const double between = (others - 1) * piece;
  load.busiest = {2 * others - 1, vector + between, reduces ? vector : 0, reduces ? between : 0};
  load.average = {2 * others * others / n, 2 * others * vector / n,
                  reduces ? others * vector / n : 0, reduces ? others * between / n : 0};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
