// All-gather and reduce-scatter around a ring, in both directions at once: halves of the all-reduce
// in ring.cpp, and for variable counts.
//
// Plan.  Every block is cut into two pieces; the first travels forwards, the second backwards. In a
//   direction let at(x) be the rank at position x along it, and p the own position:
//
//   all-gather      step s = 0 .. n-2: send block at(p - s) to the next rank, receive block
//                   at(p - 1 - s) from the one before: a block walks once around.
//   reduce-scatter  step s = 0 .. n-2: send the partial sum of block at(p - 1 - s), receive that of
//                   block at(p - 2 - s) and combine it with the own contribution; the last one
//                   is the own block, whole: it goes to the output.
//
// Phases.  Blocks are numbered by ranks. Where the ring is 0, 1, 2, ... the steps are one phase;
//   where it follows cables in another order, every step is a phase of its own.
// Scratch.  Partial sums wait in a few slots in turn; a slot is written again when what was sent
//   from it has been released, which waits for an earlier step of the next rank alone.
// Cost.  n - 1 latencies; every cable carries (n - 1) / 2n vectors each way, the lower bound for a
//   ring.
#include <algorithm>

#include "algorithms/draft.h"
#include "algorithms/order.h"
#include "algorithms/ring.h"

namespace tbccl::algorithms {

namespace {

constexpr int kSlots = 4;  // of each direction

class Direction {
 public:
  // `way` is 1 or -1; the direction's piece of each block is number `half`.
  Direction(Draft& draft, const RingOrder& ring, int rank, int way, int half)
      : draft_(draft),
        ring_(ring),
        size_(static_cast<int>(ring.order.size())),
        position_(ring.position(rank)),
        way_(way),
        half_(half),
        tags_(half * (size_ - 1)),
        next_(fixed(at(-1))),
        prev_(fixed(at(1))) {
    for (int back = 1; back < size_; back++)
      regular_ = regular_ && at(back + 1) == (at(back) - way_ + size_) % size_;
    regular_ = regular_ && at(1) == (rank - way_ + size_) % size_;
  }

  void gather() {
    const int steps = size_ - 1;
    draft_.send(1, next_, block(0), tag(0), draft_.own(), {});
    for (int s = 0; s < steps; s += run(steps)) {
      const int repeat = run(steps);
      const int16_t received = draft_.recv(repeat, prev_, block(1 + s), tag(s), output(), {});
      // The last block has been everywhere.
      const int on = std::min(repeat, steps - 1 - s);
      draft_.send(on, next_, block(1 + s), tag(s + 1), output(), {done(received, 0)});
    }
  }

  void scatter(int first_slot) {
    const int passing = size_ - 2;  // steps whose sums are passed on
    const Range first = block(1);
    draft_.send(1, next_, first, tag(0), draft_.own(first.piece), draft_.ready());
    std::vector<int16_t> passed;
    for (int s = 0; s < passing; s += run(passing)) {
      const int repeat = run(passing);
      const Range range = block(2 + s);
      const Operand slot = scratch(around(s, 1, kSlots, first_slot + half_ * kSlots));
      std::vector<Dep> deps = draft_.ready();
      if (repeat > kSlots)
        deps.push_back(released(static_cast<int16_t>(draft_.next() + 1), -kSlots));
      else if (s >= kSlots)
        deps.push_back(released(passed[static_cast<size_t>(s - kSlots)]));
      const int16_t partial = draft_.recv_reduce(repeat, prev_, range, tag(s),
                                                 draft_.own(range.piece), slot, true, false, deps);
      passed.push_back(draft_.send(repeat, next_, range, tag(s + 1), slot, {done(partial, 0)}));
    }
    const Range mine = block(size_);
    draft_.recv_reduce(1, prev_, mine, tag(passing), draft_.own(mine.piece), output(), true, true,
                       draft_.ready());
  }

 private:
  // The rank so many steps against the direction.
  int at(int back) const {
    const int position = position_ - way_ * back;
    return ring_.order[static_cast<size_t>((position % size_ + size_) % size_)];
  }
  int run(int steps) const { return regular_ ? std::max(steps, 1) : 1; }
  // The blocks of so many ranks back, and, from iteration to iteration, further back.
  Range block(int back) const { return {around(2 * at(back), -2 * way_, 2 * size_, half_)}; }
  Affine tag(int step) const { return counting(tags_ + step); }

  Draft& draft_;
  const RingOrder& ring_;
  int size_, position_, way_, half_, tags_;
  Affine next_, prev_;
  bool regular_ = true;
};

}  // namespace

Schedule make_ring_blocks(const Collective& collective, int rank, int size,
                          const schedule::Basis& basis) {
  Draft draft("ring", collective, rank, size, 2, false);
  const RingOrder ring = ring_order(basis);
  const bool reduces = schedule::reduces(collective.operation);
  if (reduces) draft.scratch_slots(2 * kSlots);
  for (int half : {0, 1}) {
    Direction direction(draft, ring, rank, half == 0 ? 1 : -1, half);
    if (reduces)
      direction.scatter(draft.kept_slots());
    else
      direction.gather();
  }
  if (!reduces && !draft.in_place()) draft.copy({fixed(2 * rank), 2}, input(), output(), false, {});
  return draft.take();
}

}  // namespace tbccl::algorithms
