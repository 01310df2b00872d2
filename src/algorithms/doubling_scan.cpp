// Scans by recursive doubling: ceil(log2 n) steps, any n.
//
// Plan.  In step k every rank sends what it has to the rank 2^k above it, and combines what comes
//   from the rank 2^k below, before its own: then it has the fold of the 2^(k+1) ranks that end
//   with it, or of all if there are not so many below.
//
//   n = 6:   0 -> 1 -> 2 -> 3 -> 4 -> 5       step 0: 0, 01, 12, 23, 34, 45
//            0 -> 2,  1 -> 3,  2 -> 4 ...     step 1: 0, 01, 012, 0123, 1234, 2345
//            0 -> 4,  1 -> 5                  step 2: ... 01234, 012345
//
//   Rank r is complete after as many steps as r has bits, and goes on sending while there are ranks
//   2^k above it.
// Scan.  The fold moves between two slots of scratch, as what is being sent may not be overwritten,
//   and ends in the output; a slot is written again when the send of two steps before has been
//   released. A rank that goes on sending divides an average after its last send: from the rounded
//   sum.
// Exclusive scan.  A rank keeps two folds: `before`, of the ranks below it alone, to which all that
//   comes is added, and what it sends, made of `before` and its own contribution in each step.
// Cost.  log2 n latencies, a whole vector each: for small vectors.
#include <algorithm>
#include <bit>

#include "algorithms/doubling.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

int bits(int number) { return static_cast<int>(std::bit_width(static_cast<unsigned>(number))); }

// Rank r, of which so many steps send and receive.
class Scan {
 public:
  Scan(Draft draft, int rank, int size)
      : draft_(std::move(draft)),
        rank_(rank),
        receives_(bits(rank)),
        sends_(bits(size - 1 - rank)),
        slot_(draft_.kept_slots()) {}

  Schedule inclusive() {
    const bool goes_on = sends_ > receives_;  // after it is complete
    draft_.scratch_slots(std::clamp(receives_ - 1, 0, 2));
    Operand sum = draft_.own();
    std::vector<Dep> ready = draft_.ready();
    for (int k = 0; k < std::max(receives_, sends_); k++) {
      send(k, sum, ready);
      if (k >= receives_) continue;
      const bool last = k + 1 == receives_;
      const Operand to = last ? output() : scratch(fixed(slot_ + k % 2));
      std::vector<Dep> deps = ready;
      if (last && draft_.in_place()) deps.push_back(released(sent(0)));
      if (!last && k >= 2) deps.push_back(released(sent(k - 1)));
      ready = {done(draft_.recv_reduce(1, below(k), draft_.all(), fixed(k), sum, to, true,
                                       last && !goes_on, std::move(deps)))};
      sum = to;
    }
    if (goes_on) finish_in_output(sum);
    return draft_.take();
  }

  Schedule exclusive() {
    const bool goes_on = sends_ > receives_;
    const int folds = std::clamp(sends_ - 1, 0, receives_);
    draft_.scratch_slots((receives_ > 1 || folds > 0 ? 1 : 0) + std::min(folds, 2));
    Operand sum = draft_.own();
    std::vector<Dep> ready = draft_.ready();
    for (int k = 0; k < std::max(receives_, sends_); k++) {
      send(k, sum, ready);
      if (k >= receives_) continue;
      add_before(k);
      folded_ = kNoPhase;
      if (k + 1 >= sends_) continue;
      sum = scratch(fixed(slot_ + 1 + k % 2));
      folded_ = fold_own(k, sum);
      ready = {done(folded_)};
    }
    if (goes_on && receives_ > 0)
      draft_.copy(draft_.all(), before(), output(), true,
                  draft_.in_place() ? std::vector<Dep>{done(folded_), released(sent(0))}
                                    : std::vector<Dep>{done(came_)});
    return draft_.take();
  }

 private:
  Operand before() const { return scratch(fixed(slot_)); }
  Affine below(int k) const { return fixed(rank_ - (1 << k)); }
  int16_t sent(int k) const { return k < sends_ ? sent_[static_cast<size_t>(k)] : kNoPhase; }

  void send(int k, const Operand& from, const std::vector<Dep>& ready) {
    if (k >= sends_) return;
    sent_.push_back(draft_.send(1, fixed(rank_ + (1 << k)), draft_.all(), fixed(k), from, ready));
  }

  // The complete sum, which lies in the output if anything was received, is sent no more.
  void finish_in_output(const Operand& sum) {
    std::vector<Dep> deps;
    if (receives_ == 0) deps = draft_.ready();
    if (sum == output())
      for (int k = receives_; k < sends_; k++) deps.push_back(released(sent(k)));
    draft_.copy(draft_.all(), sum, output(), true, std::move(deps));
  }

  // What comes in step k joins the sum of the ranks below: in the output if it is complete then and
  // no sum is made of it any more.
  void add_before(int k) {
    const bool there = k + 1 == receives_ && k + 1 >= sends_;
    const bool overwrites = there && draft_.in_place();
    std::vector<Dep> deps;
    if (k > 0)  // a fold waits for what came before it
      deps.push_back(done(folded_ != kNoPhase && (!there || overwrites) ? folded_ : came_));
    if (overwrites && sends_ > 0) deps.push_back(released(sent(0)));
    if (overwrites && sends_ == 0)
      deps.insert(deps.end(), draft_.ready().begin(), draft_.ready().end());
    const Operand to = there ? output() : before();
    if (k > 0) {
      came_ = draft_.recv_reduce(1, below(k), draft_.all(), fixed(k), before(), to, true, there,
                                 std::move(deps));
      return;
    }
    came_ = draft_.recv(1, below(k), draft_.all(), fixed(k), to, std::move(deps));
    if (there) draft_.copy(draft_.all(), output(), output(), true, {done(came_)});
  }

  // The sum that is sent after step k.
  int16_t fold_own(int k, const Operand& to) {
    std::vector<Dep> deps = k == 0 ? draft_.ready() : std::vector<Dep>();
    deps.push_back(done(came_));
    if (k >= 2) deps.push_back(released(sent(k - 1)));
    return draft_.fold(draft_.all(), 2, 1, fixed(slot_), to, std::move(deps), false);
  }

  Draft draft_;
  int rank_, receives_, sends_;
  int slot_;  // the first one that is free
  std::vector<int16_t> sent_;
  int16_t came_ = kNoPhase, folded_ = kNoPhase;
};

}  // namespace

Schedule make_doubling_scan(const Collective& collective, int rank, int size) {
  Scan scan(Draft("doubling", collective, rank, size, 1, true), rank, size);
  return collective.operation == tbcclOpExScan ? scan.exclusive() : scan.inclusive();
}

Cost cost_doubling_scan(const Collective& collective, uint64_t bytes,
                        const schedule::Basis& basis) {
  const int n = basis.size;
  const double vector = static_cast<double>(bytes);
  Load load;
  // To wait in k + 1 steps, a rank needs 2^k others below it to have waited in k.
  load.steps = bits(n) - 1;
  double network = 0, messages = 0, shortest = 0;
  for (int k = 0; k < bits(n - 1); k++) {
    const int away = 1 << k;
    double alpha = 0, wire = 0, shared = 0;
    for (int rank = 0; rank + away < n; rank += sample_stride(n)) {
      alpha = std::max(alpha, basis.alpha(rank, rank + away));
      double& longest = uses_network(basis, rank, rank + away) ? shared : wire;
      longest = std::max(longest, vector / basis.rate(rank, rank + away));
    }
    load.latency += alpha;
    shortest = k == 0 ? alpha : std::min(shortest, alpha);
    load.wire = std::max(load.wire, wire);
    network += shared;
    messages += n - away;
  }
  if (bits(n - 1) > load.steps) load.latency -= shortest;
  load.wire = std::max(load.wire, network);
  const double combinations = collective.operation == tbcclOpExScan ? 2 : 1;  // of a message
  const double most = bits(n / 2) + bits(n - 1 - n / 2);  // of the rank in the middle
  load.busiest = {most, most * vector, combinations * bits(n / 2) * vector, 0};
  load.average = {2 * messages / n, 2 * messages / n * vector, combinations * messages / n * vector,
                  0};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
