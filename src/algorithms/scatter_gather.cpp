// Broadcast by scatter and all-gather: every link carries data, any n and root.
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
// Cost.  Two latencies; a piece a link each way, m pieces where links share a network: for large
//   vectors, where every pair has a link of its own or all share a network.
#include "algorithms/algorithms.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

Schedule make_scatter_gather(const Collective& collective, int rank, int size,
                             const schedule::Basis&) {
  if (size == 1) return make_alone("scatter_gather", collective);
  const int others = size - 1, root = collective.root;
  Draft draft("scatter_gather", collective, rank, size, others, true);
  const Affine tag = fixed(0);
  if (rank == root) {
    draft.send(others, around(root + 1, 1, size), {counting(0)}, tag, draft.own(), {});
    if (!draft.in_place()) draft.copy(draft.all(), input(), output(), false, {});
    return draft.take();
  }
  const int v = (rank - root + size) % size;
  const Range mine{fixed(v - 1)};
  const Affine up = around(rank + 1, 1, size), down = around(rank - 1, -1, size);
  const int16_t received = draft.recv(1, fixed(root), mine, tag, output(), {});
  draft.send(size - 1 - v, up, mine, tag, output(), {done(received)});
  draft.send(v - 1, down, mine, tag, output(), {done(received)});
  draft.recv(v - 1, down, {counting(v - 2, -1)}, tag, output(), {});
  draft.recv(size - 1 - v, up, {counting(v)}, tag, output(), {});
  return draft.take();
}

Cost cost_scatter_gather(const Collective& collective, uint64_t bytes,
                         const schedule::Basis& basis) {
  const int n = basis.size;
  Load load;
  if (n == 1) return price(load, bytes, basis);
  const double others = n - 1, vector = static_cast<double>(bytes), piece = vector / others;
  const double first = first_segment(piece);
  load.steps = n > 2 ? 2 : 1;
  load.latency = load.steps * all_pairs_alpha(basis);
  if (n > 2)
    load.latency +=
        first / basis.rate(collective.root, (collective.root + 1) % n) + 2 * first * basis.cpu_byte;
  // The root sends a piece to everybody, the others to everybody but the root.
  load.wire = all_pairs_wire(piece, basis);
  load.busiest = {2 * others - 1, vector + (others - 1) * piece, 0};
  load.average = {2 * others * others / n, 2 * others * vector / n, 0};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
