// Broadcast down a k-nomial tree, and reduce up the same tree: log_k n steps, any n and root.
//
// Plan.  Let v be the rank counted from the root, written with radix k. v receives from v without
//   its lowest digit that is not 0, and sends to v + d k^i for every i below that digit and every
//   d from 1 to k - 1, the largest subtrees first:
//
//            0
//        +---+---+             k = 2, n = 8:  0 -> 4 -> 6 -> 7
//        4   2   1                            0 -> 2 -> 3,  4 -> 5,  0 -> 1
//       +-+  +
//       6 5  3                 the deepest path starts first
//       +
//       7                      k = 3, n = 8:  0 -> 3 -> 4, 5;  0 -> 6 -> 7;  0 -> 1, 2
//
//   A rank passes on every byte as soon as it has it: the engine streams.
// Radix.  A larger k has fewer steps and more messages in each: the one whose formula is least for
//   an empty vector, where that is all that counts. At least two steps from 4 ranks on: with one
//   it would be direct exchange.
// Reduce.  The same messages backwards: v combines its own contribution with those of its subtrees,
//   the smallest first, which are the first to be ready, and sends the sum to its parent. With root
//   0 that is rank order. Subtrees of the same size are ready at the same time, so each is received
//   into a slot of its own, and one fold takes all of them. Slots hold whole vectors, which is why
//   k is small here.
// Gather and scatter: tree_blocks.cpp.
// Cost.  log_k n latencies; the root sends, or receives, (k - 1) log_k n vectors: for small
// vectors.
#include "algorithms/tree.h"

#include <algorithm>

#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

// A rank that combines keeps a vector for each child of a level.
constexpr int kMostReduceRadix = 4;

// Combines what one level of children sends with the sum so far, which `ready` completes.
class Sum {
 public:
  Sum(Draft& draft, int root, int size) : draft_(draft), root_(root), size_(size) {}

  void add(const std::vector<int>& level, const Operand& to, bool finish) {
    const int first = draft_.kept_slots();  // holds the sum; slots for the children follow
    if (level.size() == 1) {
      ready_ = {done(draft_.recv_reduce(1, rank_of(level[0]), draft_.all(), fixed(0), sum_, to,
                                        false, finish, ready_))};
    } else {
      std::vector<Dep> deps = folded_ ? std::vector<Dep>() : ready_;
      for (size_t i = 0; i < level.size(); i++)
        deps.push_back(done(draft_.recv(1, rank_of(level[i]), draft_.all(), fixed(0),
                                        scratch(fixed(first + 1 + static_cast<int>(i))),
                                        folded_ ? ready_ : std::vector<Dep>())));
      ready_ = {done(draft_.fold(draft_.all(), 1 + static_cast<int>(level.size()), folded_ ? -1 : 0,
                                 counting(first), to, deps, finish))};
      folded_ = true;
    }
    sum_ = to;
  }

  Affine rank_of(int v) const { return fixed((v + root_) % size_); }
  const Operand& sum() const { return sum_; }
  const std::vector<Dep>& ready() const { return ready_; }

 private:
  Draft& draft_;
  int root_, size_;
  Operand sum_ = draft_.own();
  std::vector<Dep> ready_ = draft_.ready();
  bool folded_ = false;  // the sum lies in its slot
};

Schedule make_reduce(const Collective& collective, int rank, int size, const Knomial& tree) {
  Draft draft("tree", collective, rank, size, 1, false);
  const int v = (rank - collective.root + size) % size;
  const bool root = v == 0;
  const std::vector<std::vector<int>> levels = tree.levels(v);
  const int widest = levels.empty() ? 0 : static_cast<int>(levels.front().size());
  if (widest > 1)
    draft.scratch_slots(1 + widest);
  else if (!root && widest == 1)
    draft.scratch_slots(1);
  Sum sum(draft, collective.root, size);
  for (size_t level = 0; level < levels.size(); level++) {
    const bool last = root && level + 1 == levels.size();
    const bool there = last || (root && widest == 1);
    sum.add(levels[level], there ? output() : scratch(fixed(draft.kept_slots())), last);
  }
  if (!root)
    draft.send(1, sum.rank_of(tree.parent(v)), draft.all(), fixed(0), sum.sum(), sum.ready());
  return draft.take();
}

Schedule make_broadcast(const Collective& collective, int rank, int size, const Knomial& tree) {
  Draft draft("tree", collective, rank, size, 1, true);
  const int v = (rank - collective.root + size) % size;
  const auto rank_of = [&](int w) { return fixed((w + collective.root) % size); };
  int16_t received = kNoPhase;
  Operand from = draft.own();
  if (v != 0) {
    received = draft.recv(1, rank_of(tree.parent(v)), draft.all(), fixed(0), output(), {});
    from = output();
  }
  std::vector<int> children = tree.children(v);
  std::stable_sort(children.begin(), children.end(),
                   [&](int a, int b) { return tree.subtree(a) > tree.subtree(b); });
  for (int child : children)
    draft.send(1, rank_of(child), draft.all(), fixed(0), from, {done(received)});
  if (v == 0 && !draft.in_place()) draft.copy(draft.all(), input(), output(), false, {});
  return draft.take();
}

}  // namespace

int64_t Knomial::place(int v) const {
  int64_t place = 1;
  while (v == 0 ? place < size_ : v % (place * radix_) == 0) place *= radix_;
  return place;
}

int Knomial::parent(int v) const { return static_cast<int>(v - v % (place(v) * radix_)); }

int Knomial::subtree(int v) const {
  return static_cast<int>(v == 0 ? size_ : std::min<int64_t>(place(v), size_ - v));
}

std::vector<std::vector<int>> Knomial::levels(int v) const {
  std::vector<std::vector<int>> levels;
  const int64_t end = place(v);
  for (int64_t p = 1; p < end && v + p < size_; p *= radix_) {
    std::vector<int>& level = levels.emplace_back();
    for (int64_t child = v + p; child < std::min<int64_t>(v + p * radix_, size_); child += p)
      level.push_back(static_cast<int>(child));
  }
  return levels;
}

std::vector<int> Knomial::children(int v) const {
  std::vector<int> children;
  for (const std::vector<int>& level : levels(v))
    children.insert(children.end(), level.begin(), level.end());
  return children;
}

int Knomial::deepest() const {
  int64_t ones = 0;
  while (ones * radix_ + 1 < size_) ones = ones * radix_ + 1;
  return static_cast<int>(ones);
}

int Knomial::depth() const {
  int hops = 0;
  for (int v = deepest(); v != 0; v = parent(v)) hops++;
  return hops;
}

double deepest_latency(const Knomial& tree, int root, double first, double held,
                       const schedule::Basis& basis) {
  const int n = basis.size;
  double latency = 0;
  for (int v = tree.deepest(); v != 0; v = tree.parent(v)) {
    const int parent = tree.parent(v);
    const int a = (parent + root) % n, b = (v + root) % n;
    latency += basis.alpha(a, b);
    if (parent != 0) latency += first / basis.rate(a, b) + first * held;
  }
  return latency;
}

Knomial knomial_tree(const schedule::Basis& basis, int most) {
  const int n = basis.size;
  Knomial best(n, 2);
  double least = 0;
  for (int k = 2; k <= std::max(2, std::min(n - 2, most)); k++) {
    const Knomial tree(n, k);
    Load load;
    load.steps = tree.depth();
    load.latency = deepest_latency(tree, 0, 0, 0, basis);
    load.busiest.messages = static_cast<double>(tree.children(0).size());
    load.average.messages = 2.0 * (n - 1) / n;
    const double ns = price(load, 0, basis).ns;
    if (k > 2 && ns >= least) continue;
    best = tree;
    least = ns;
  }
  return best;
}

namespace {

Knomial tree_of(const Collective& collective, const schedule::Basis& basis) {
  return collective.operation == tbcclOpReduce ? knomial_tree(basis, kMostReduceRadix)
                                               : knomial_tree(basis);
}

}  // namespace

Schedule make_tree(const Collective& collective, int rank, int size, const schedule::Basis& basis) {
  if (size == 1) return make_alone("tree", collective);
  const Knomial tree = tree_of(collective, basis);
  switch (collective.operation) {
    case tbcclOpBroadcast:
      return make_broadcast(collective, rank, size, tree);
    case tbcclOpReduce:
      return make_reduce(collective, rank, size, tree);
    default:
      return make_tree_blocks(collective, rank, size, tree);
  }
}

Cost cost_tree(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  const double vector = static_cast<double>(bytes);
  Load load;
  if (n == 1) return price(load, bytes, basis);
  const Knomial tree = tree_of(collective, basis);
  if (collective.operation != tbcclOpBroadcast && collective.operation != tbcclOpReduce)
    return cost_tree_blocks(collective, bytes, basis, tree);
  for (int v = 0; v < n; v += sample_stride(n)) {
    double network = 0;
    for (int child : tree.children(v)) {
      const int a = (v + collective.root) % n, b = (child + collective.root) % n;
      const double wire = vector / basis.rate(a, b);
      if (uses_network(basis, a, b)) network += wire;
      load.wire = std::max({load.wire, wire, network});
    }
  }
  load.steps = tree.depth();
  const double gamma = collective.operation == tbcclOpReduce ? basis.gamma : 0;
  load.latency = deepest_latency(tree, collective.root, first_segment(vector),
                                 2 * basis.cpu_byte + gamma, basis);
  const auto messages = static_cast<double>(tree.children(0).size());         // of the root
  const double reduced = collective.operation == tbcclOpReduce ? vector : 0;  // a message
  load.busiest = {messages, messages * vector, messages * reduced,
                  tree.radix() > 2 ? messages * reduced : 0};
  load.average = {2.0 * (n - 1) / n, 2.0 * (n - 1) / n * vector, (n - 1) * reduced / n};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
