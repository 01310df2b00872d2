// All-to-all in ceil(log2 n) steps, any n (Bruck and others, 1997).
//
// Plan.  A block that is to go j ranks up goes there by the powers of two that j is the sum of, the
//   smallest first: in step k every rank sends, in one message, all blocks whose j has bit k to the
//   rank 2^k above it.
//
//   n = 6, from rank r:    j    1 2 3 4 5
//              step 0      +1   x . x . x     to r+1
//              step 1      +2   . x x . .     to r+2     (3: those that came in step 0)
//              step 2      +4   . . . x x     to r+4     (5: those that came in step 0)
//
//   Within a message blocks are in the order of j. Each step collects its message in a slot of
//   scratch: a block whose lowest bit is k from the input, any other from the message that came in
//   the step of its next lower bit. What came in the step of its highest bit goes to the output.
// Slots.  One for each message sent and one for each received, of about n / 2 blocks: so no step
//   waits for another's release.
// In place.  A block may be put in the output when what lay there has been collected.
// Cost.  log2 n latencies instead of n - 1 messages, but every block is sent log2(n) / 2 times, and
//   copied as often: for small blocks.
// All-gather: bruck_gather.cpp.
#include "algorithms/bruck.h"

#include <algorithm>
#include <bit>
#include <set>

#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

int steps_of(int size) { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }

// Blocks in the message of step k.
int count_of(int k, int size) {
  const int bit = 1 << k;
  return size / (2 * bit) * bit + std::max(size % (2 * bit) - bit, 0);
}

// Number of block j in the message of step k.
int place_of(int j, int k) { return j >> (k + 1) << k | (j & ((1 << k) - 1)); }

// A block that is copied: pieces of the source and of the destination.
struct Move {
  int from, to;
};

using Moves = std::vector<Move>;

// `repeat` times `pieces` consecutive blocks, from move number `first` on.
struct Stretch {
  size_t first;
  int repeat, pieces;
  Move stride;
};

Move apart(const Move& a, const Move& b) { return {b.from - a.from, b.to - a.to}; }
bool same(const Move& a, const Move& b) { return a.from == b.from && a.to == b.to; }

// As many blocks as lie side by side from move number `first` on.
int run_at(const Moves& moves, size_t first) {
  size_t next = first + 1;
  while (next < moves.size() && same(apart(moves[next - 1], moves[next]), {1, 1})) next++;
  return static_cast<int>(next - first);
}

std::vector<Stretch> stretches(const Moves& moves) {
  std::vector<Stretch> result;
  for (size_t at = 0; at < moves.size();) {
    const int pieces = run_at(moves, at);
    const auto length = static_cast<size_t>(pieces);
    bool goes_on = !result.empty() && result.back().pieces == pieces;
    if (goes_on) {
      Stretch& last = result.back();
      const Move stride = apart(moves[at - length], moves[at]);
      goes_on = last.repeat == 1 || same(stride, last.stride);
      if (goes_on) last.stride = stride;
      if (goes_on) last.repeat++;
    }
    if (!goes_on) result.push_back({at, 1, pieces, {0, 0}});
    at += length;
  }
  return result;
}

class Bruck {
 public:
  Bruck(Draft draft, bool in_place, int rank, int size)
      : draft_(std::move(draft)),
        in_place_(in_place),
        rank_(rank),
        size_(size),
        steps_(steps_of(size)),
        collected_(static_cast<size_t>(size), kNoPhase) {}

  Schedule make() {
    draft_.scratch_slots(2 * steps_);
    for (int k = 0; k < steps_; k++) {
      const Range all{fixed(0), count_of(k, size_)};
      const Affine above = fixed((rank_ + (1 << k)) % size_);
      const Affine below = fixed((rank_ + size_ - (1 << k)) % size_);
      draft_.send(1, above, all, fixed(k), sent(k), collect(k));
      received_.push_back(draft_.recv(1, below, all, fixed(k), received(k), {}));
    }
    for (int k = 0; k < steps_; k++) put_in_place(k);
    if (!in_place_) draft_.copy({fixed(rank_)}, input(), output(fixed(size_)), false, {});
    return draft_.take();
  }

 private:
  static Operand sent(int k) { return scratch(fixed(2 * k), 0); }
  static Operand received(int k) { return scratch(fixed(2 * k + 1), 0); }
  // Whole: its blocks are copied to other places.
  Dep came(int k) const { return released(received_[static_cast<size_t>(k)]); }

  // Makes the message of step k. Returns what it has to wait for.
  std::vector<Dep> collect(int k) {
    const int bit = 1 << k;
    std::vector<Dep> deps;
    Moves moves;
    for (int j = bit; j < size_; j += 2 * bit)
      moves.push_back({(rank_ + j) % size_, place_of(j, k)});
    for (const Stretch& stretch : stretches(moves)) {
      const int16_t phase = copy(moves, stretch, input(), sent(k), {});
      deps.push_back(done(phase));
      for (int i = 0; i < stretch.repeat * stretch.pieces; i++)
        collected_[static_cast<size_t>(moves[stretch.first + static_cast<size_t>(i)].from)] = phase;
    }
    for (int lower = 0; lower < k; lower++) {
      moves.clear();
      for (int j = bit; j < size_; j++)
        if ((j & (2 * bit - 1)) >> lower == (bit >> lower | 1))  // no bits in between
          moves.push_back({place_of(j, lower), place_of(j, k)});
      for (const Stretch& stretch : stretches(moves))
        deps.push_back(done(copy(moves, stretch, received(lower), sent(k), {came(lower)})));
    }
    return deps;
  }

  // The blocks whose highest bit is k.
  void put_in_place(int k) {
    Moves moves;
    for (int j = 1 << k; j < std::min(2 << k, size_); j++)
      moves.push_back({place_of(j, k), size_ + (rank_ + size_ - j) % size_});
    for (const Stretch& stretch : stretches(moves)) {
      std::set<int16_t> readers;  // of what lies there
      for (int i = 0; i < stretch.repeat * stretch.pieces && in_place_; i++) {
        const Move& move = moves[stretch.first + static_cast<size_t>(i)];
        readers.insert(collected_[static_cast<size_t>(move.to - size_)]);
      }
      std::vector<Dep> deps = {came(k)};
      for (const int16_t phase : readers) deps.push_back(released(phase));
      copy(moves, stretch, received(k), output(), std::move(deps));
    }
  }

  int16_t copy(const Moves& moves, const Stretch& stretch, Operand src, const Operand& dst,
               std::vector<Dep> deps) {
    const Move& first = moves[stretch.first];
    src.shift = counting(first.from - first.to, stretch.stride.from - stretch.stride.to);
    const Range to{counting(first.to, stretch.stride.to), stretch.pieces};
    return draft_.copy_each(stretch.repeat, to, src, dst, std::move(deps));
  }

  Draft draft_;
  bool in_place_;
  int rank_, size_, steps_;
  std::vector<int16_t> received_;   // phase of each step
  std::vector<int16_t> collected_;  // phase that has copied each block of the input
};

Cost cost_all_to_all(uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  const double block = static_cast<double>(bytes) / n;
  Load load;
  std::vector<Load> chain;  // of messages that wait for each other, to the end of each step
  double network = 0, sent = 0;
  for (int k = 0; k < steps_of(n); k++) {
    const double part = block * count_of(k, n);
    double alpha = 0, wire = 0, shared = 0;
    for (int rank = 0; rank < n; rank += sample_stride(n)) {
      const int peer = (rank + (1 << k)) % n;
      alpha = std::max(alpha, basis.alpha(rank, peer));
      double& longest = uses_network(basis, rank, peer) ? shared : wire;
      longest = std::max(longest, part / basis.rate(rank, peer));
    }
    load.wire = std::max(load.wire, wire);
    network += shared;
    sent += part;
    Load before;
    for (int lower = 0; lower < k && (1 << k) + (1 << lower) < n; lower++) {
      const Load& other = chain[static_cast<size_t>(lower)];
      before.steps = std::max(before.steps, other.steps);
      before.latency = std::max(before.latency, other.latency);
    }
    before.steps++;
    before.latency += alpha;
    load.steps = std::max(load.steps, before.steps);
    load.latency = std::max(load.latency, before.latency);
    chain.push_back(before);
  }
  load.wire = std::max(load.wire, network);
  // Copies count as bytes moved: all that is sent, and what goes to the output.
  load.busiest = {2.0 * steps_of(n), 3 * sent + block * (n - 1), 0, 0};
  load.average = load.busiest;
  return price(load, bytes, basis);
}

}  // namespace

Schedule make_bruck(const Collective& collective, int rank, int size, const schedule::Basis&) {
  if (size == 1) return make_alone("bruck", collective);
  if (collective.operation == tbcclOpAllGather) return make_bruck_gather(collective, rank, size);
  Draft draft("bruck", collective, rank, size, 1, true);
  return Bruck(std::move(draft), collective.in_place, rank, size).make();
}

Cost cost_bruck(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  if (basis.size == 1) return price({}, bytes, basis);
  return collective.operation == tbcclOpAllGather ? cost_bruck_gather(bytes, basis)
                                                  : cost_all_to_all(bytes, basis);
}

}  // namespace tbccl::algorithms
