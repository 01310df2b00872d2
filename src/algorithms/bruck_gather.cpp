// All-gather around a circle: ceil(log2 n) steps, any n (Bruck and others, 1997).
//
// Plan.  Before a step every rank holds the blocks of so many ranks from itself on: 1, and in the
//   end n. In the step it gets those that follow from the rank that they begin with, and gives the
//   same number, its first ones, to the rank as far below:
//
//   n = 5:   rank r holds  r           sends r          to r-1, gets r+1        from r+1
//                          r r+1       sends r          to r-2, gets r+2        from r+2
//                          r r+1 r+2   sends r r+1      to r-3, gets r+3 r+4    from r+3
//
//   Blocks go to their place in the output at once: nothing is turned round at the end. Blocks that
//   pass the end of the vector are two messages.
// Cost.  As many latencies as there can be fewest, and no byte twice. Where n is a power of two the
//   exchanges of recursive doubling do the same with one message a step; for all other n this one
//   has two steps fewer.
#include <algorithm>

#include "algorithms/bruck.h"
#include "algorithms/circle.h"

namespace tbccl::algorithms {

namespace {

// Which phase brings blocks to the output.
struct Brought {
  Range blocks;
  int16_t phase;
};

bool overlap(const Range& a, const Range& b) {
  return a.piece.base < b.piece.base + b.pieces && b.piece.base < a.piece.base + a.pieces;
}

std::vector<Dep> when_there(const std::vector<Brought>& brought, const Range& blocks) {
  std::vector<Dep> deps;
  for (const Brought& b : brought)
    if (overlap(b.blocks, blocks)) deps.push_back(done(b.phase));
  return deps;
}

}  // namespace

Schedule make_bruck_gather(const Collective& collective, int rank, int size) {
  Draft draft("bruck", collective, rank, size, 1, true);
  const std::vector<int> held = growth(size);
  std::vector<Brought> brought;
  const Range mine{fixed(rank)};
  if (!draft.in_place()) brought.push_back({mine, draft.copy(mine, input(), output(), false, {})});
  for (size_t k = 0; k + 1 < held.size(); k++) {
    const int away = held[k], count = held[k + 1] - held[k];
    const auto tag = [&](size_t part) { return fixed(static_cast<int>(2 * k + part)); };
    const Affine below = fixed((rank + size - away) % size), above = fixed((rank + away) % size);
    const std::vector<Range> given = on_circle(rank, count, size);
    for (size_t i = 0; i < given.size(); i++) {
      if (k == 0)
        draft.send(1, below, mine, tag(i), draft.own(), {});
      else
        draft.send(1, below, given[i], tag(i), output(), when_there(brought, given[i]));
    }
    const std::vector<Range> got = on_circle(rank + away, count, size);
    for (size_t i = 0; i < got.size(); i++)
      brought.push_back({got[i], draft.recv(1, above, got[i], tag(i), output(), {})});
  }
  return draft.take();
}

Cost cost_bruck_gather(uint64_t bytes, const schedule::Basis& basis) {
  return price(circle_load(static_cast<double>(bytes) / basis.size, basis), bytes, basis);
}

}  // namespace tbccl::algorithms
