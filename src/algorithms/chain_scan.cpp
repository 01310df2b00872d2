// Scans along the ranks: every rank hands on to the next what it and all below it hold together.
//
// Plan.  Rank r receives the sum over the ranks below it, combines it with its own contribution and
//   sends that on, byte by byte as it comes (the engine streams):
//
//      0 -- x0 --> 1 -- x0 x1 --> 2 -- x0 x1 x2 --> 3
//
//   scan             what is sent on is also the result: it is made in the output. Only an average
//                    changes it once more, when it has been sent.
//   exclusive scan   what comes in is the result; it waits in scratch until it has been combined
//                    for the next rank. In place it may overwrite the own contribution after that.
//
//   Averages: the sum is rounded before it is divided, as it goes on undivided.
//   The order is the ranks' own on any cabling, since the results are: other operators than sums
//   need it.
// Cost.  n - 1 latencies, each with the time of one segment; a vector a link: for large vectors.
#include <algorithm>

#include "algorithms/chain.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

Schedule make_scan(Draft draft, int rank, int size) {
  const Affine below = fixed(rank - 1), above = fixed(rank + 1);
  if (rank == 0) {
    const int16_t sent = draft.send(1, above, draft.all(), fixed(0), draft.own(), draft.ready());
    draft.copy(draft.all(), draft.own(), output(), true,
               with(draft.ready(), {released(draft.in_place() ? sent : kNoPhase)}));
    return draft.take();
  }
  const bool last = rank == size - 1;
  const int16_t summed = draft.recv_reduce(1, below, draft.all(), fixed(0), draft.own(), output(),
                                           true, last, draft.ready());
  if (last) return draft.take();
  const int16_t sent = draft.send(1, above, draft.all(), fixed(0), output(), {done(summed)});
  draft.copy(draft.all(), output(), output(), true, {released(sent)});
  return draft.take();
}

Schedule make_exclusive(Draft draft, int rank, int size) {
  const Affine below = fixed(rank - 1), above = fixed(rank + 1);
  if (rank == 0) {
    draft.send(1, above, draft.all(), fixed(0), draft.own(), draft.ready());
    return draft.take();
  }
  if (rank == size - 1) {
    const int16_t came = draft.recv(1, below, draft.all(), fixed(0), output(), draft.ready());
    draft.copy(draft.all(), output(), output(), true, {done(came)});
    return draft.take();
  }
  const int slot = draft.kept_slots();
  draft.scratch_slots(2);
  const Operand before = scratch(fixed(slot)), on = scratch(fixed(slot + 1));
  const int16_t came = draft.recv(1, below, draft.all(), fixed(0), before, {});
  const int16_t summed =
      draft.fold(draft.all(), 2, 1, fixed(slot), on, with(draft.ready(), {done(came)}), false);
  draft.send(1, above, draft.all(), fixed(0), on, {done(summed)});
  draft.copy(draft.all(), before, output(), true, {done(draft.in_place() ? summed : came)});
  return draft.take();
}

}  // namespace

Schedule make_chain_scan(const Collective& collective, int rank, int size) {
  Draft draft("chain", collective, rank, size, 1, true);
  return collective.operation == tbcclOpExScan ? make_exclusive(std::move(draft), rank, size)
                                               : make_scan(std::move(draft), rank, size);
}

Cost cost_chain_scan(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  const double vector = static_cast<double>(bytes), first = first_segment(vector);
  Load load;
  load.steps = n - 1;
  for (int rank = 0; rank + 1 < n; rank++) {
    const double rate = basis.rate(rank, rank + 1);
    load.latency += basis.alpha(rank, rank + 1);
    if (rank > 0) load.latency += first / rate + first * (2 * basis.cpu_byte + basis.gamma);
    load.wire = std::max(load.wire, vector / rate);
  }
  // What comes in is combined; of an exclusive scan it is also put in the output afterwards.
  const double reduced = collective.operation == tbcclOpExScan ? 2 * vector : vector;
  const double share = static_cast<double>(n - 1) / n;
  load.busiest = {n > 2 ? 2.0 : 1.0, (n > 2 ? 2 : 1) * vector, reduced, 0};
  load.average = {2 * share, 2 * share * vector, share * reduced, 0};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
