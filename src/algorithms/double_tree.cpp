// All-reduce, broadcast and reduce along two binary trees that complement each other: log2 n steps
// and whole bandwidth, any n and root.
//
// Plan.  The first tree has its members in order, from left to right, so that every odd number is
//   a leaf; the second is the same tree with everybody one place further to the left (and the first
//   in the last place), so that every even number is one:
//
//            4                        5           m = 6 members; each half of the
//         +--+--+                  +--+--+        vector goes along one tree
//         2     6                  3     1
//        +-+   +                  +-+   +
//        1 3   5                  2 4   6
//
//   So nobody passes on more than one half (for odd m, number 1 passes on none), and together the
//   trees send and receive at every rank all the time: where a rank has one network, an all-reduce
//   takes the time of two vectors, as on a ring, and a broadcast or reduce that of one.
// Root.  In a broadcast or reduce the root is no member: it sends one half to each top, or receives
//   it from there. So no rank sends more than a vector.
// Reduce.  What comes from the left is combined with the own contribution while what comes from
//   the right waits in a slot, because both may come at the same time; a fold adds it. Sums are
//   kept in scratch, out of the way of the result that comes down while they are still being sent.
// Phases.  Both ways stream (the engine): a half is on its way down before all of it is up.
// Cost.  Twice log2 n latencies for all-reduce, log2 n + 1 for the others, each with the time of
//   one segment: for vectors of middle length, and for large ones on many ranks.
#include "algorithms/double_tree.h"

#include <algorithm>
#include <bit>

#include "algorithms/algorithms.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

constexpr int kTrees = 2;

Affine tag(int tree, bool down) { return fixed(2 * tree + (down ? 1 : 0)); }

// One member's part in one tree.
class Part {
 public:
  Part(Draft& draft, const DoubleTree& trees, const Collective& collective, int tree, int rank)
      : draft_(draft),
        tree_(tree),
        range_{fixed(tree)},
        sum_(draft.own(range_.piece)),
        ready_(draft.ready()) {
    const int number = trees.number(rank);
    for (int child : trees.children(tree, number)) children_.push_back(trees.rank(child));
    left_ = !children_.empty() && trees.children(tree, number).front() < number;
    const int parent = trees.parent(tree, number);
    if (parent != 0)
      parent_ = trees.rank(parent);
    else if (trees.rooted())
      parent_ = collective.root;
  }

  // From here on slots are free; returns the first that still is.
  int gather(int slot, bool result_follows) {
    const bool last = parent_ < 0;
    const Operand kept = scratch(fixed(slot));
    if (children_.size() == 1) {
      combine(children_[0], last ? output() : kept, last);
      slot += last ? 0 : 1;
    } else if (children_.size() == 2) {
      combine(children_[0], kept, false);
      const int16_t right = draft_.recv(1, fixed(children_[1]), range_, tag(tree_, false),
                                        scratch(fixed(slot + 1)), {});
      sum_ = last ? output() : kept;
      ready_ = {done(
          draft_.fold(range_, 2, -1, counting(slot), sum_, with(ready_, {done(right)}), last))};
      slot += 2;
    } else if (result_follows && draft_.in_place()) {
      ready_ = {done(draft_.copy(range_, sum_, kept, false, ready_))};
      sum_ = kept;
      slot++;
    }
    if (!last) draft_.send(1, fixed(parent_), range_, tag(tree_, false), sum_, ready_);
    return slot;
  }

  // The result, or the vector of the root, on its way down.
  void spread(bool gathered) {
    if (parent_ >= 0) {
      // In place it overwrites the own contribution.
      const bool overwrites = gathered && draft_.in_place();
      ready_ = {done(draft_.recv(1, fixed(parent_), range_, tag(tree_, true), output(),
                                 overwrites ? ready_ : std::vector<Dep>()))};
    }
    for (int child : children_)
      draft_.send(1, fixed(child), range_, tag(tree_, true), output(), ready_);
  }

 private:
  void combine(int child, const Operand& to, bool finish) {
    ready_ = {done(draft_.recv_reduce(1, fixed(child), range_, tag(tree_, false), sum_, to, left_,
                                      finish, ready_))};
    sum_ = to;
  }

  Draft& draft_;
  int tree_;
  Range range_;
  Operand sum_;
  std::vector<Dep> ready_;     // when it is there
  std::vector<int> children_;  // ranks
  bool left_ = false;          // the first child's contributions come before the own
  int parent_ = -1;            // rank
};

Schedule make_root(Draft draft, const DoubleTree& trees, const Collective& collective) {
  for (int tree = 0; tree < kTrees; tree++) {
    const Affine top = fixed(trees.rank(trees.top(tree)));
    const Range half{fixed(tree)};
    if (collective.operation == tbcclOpBroadcast)
      draft.send(1, top, half, tag(tree, true), draft.own(), {});
    else
      draft.recv_reduce(1, top, half, tag(tree, false), draft.own(half.piece), output(), false,
                        true, draft.ready());
  }
  if (collective.operation == tbcclOpBroadcast && !draft.in_place())
    draft.copy(draft.all(), input(), output(), false, {});
  return draft.take();
}

// Bytes that one member sends in both trees, or receives, by peer.
struct Carried {
  int peer;
  double bytes;
};

void carry(std::vector<Carried>& links, int peer, double bytes) {
  const auto same = std::find_if(links.begin(), links.end(),
                                 [peer](const Carried& link) { return link.peer == peer; });
  if (same == links.end())
    links.push_back({peer, bytes});
  else
    same->bytes += bytes;
}

double busiest_ns(const std::vector<Carried>& links, int rank, const schedule::Basis& basis) {
  double longest = 0, network = 0;
  for (const Carried& link : links) {
    const double ns = link.bytes / basis.rate(rank, link.peer);
    if (uses_network(basis, rank, link.peer)) network += ns;
    longest = std::max({longest, ns, network});
  }
  return longest;
}

// Sum over the way from the deepest member to the top, or the root.
double way_ns(const DoubleTree& trees, int tree, const Collective& collective, double first,
              double held, const schedule::Basis& basis) {
  double latency = 0;
  int number = trees.deepest(tree);
  for (bool passes_on = false; number != 0; passes_on = true) {
    const int parent = trees.parent(tree, number);
    if (parent == 0 && !trees.rooted()) break;
    const int a = trees.rank(number), b = parent == 0 ? collective.root : trees.rank(parent);
    latency += basis.alpha(a, b);
    if (passes_on) latency += first / basis.rate(a, b) + first * held;
    number = parent;
  }
  return latency;
}

}  // namespace

DoubleTree::DoubleTree(const Collective& collective, const schedule::Basis& basis)
    : ring_(ring_order(basis)),
      size_(basis.size),
      rooted_(collective.operation != tbcclOpAllReduce) {
  members_ = rooted_ ? size_ - 1 : size_;
  start_ = rooted_ ? ring_.position(collective.root) : size_ - 1;
}

int DoubleTree::rank(int number) const {
  return ring_.order[static_cast<size_t>((start_ + number) % size_)];
}

int DoubleTree::number(int rank) const {
  const int number = (ring_.position(rank) - start_ + size_) % size_;
  return number == 0 && !rooted_ ? size_ : number;
}

int DoubleTree::place(int tree, int number) const {
  if (tree == 0) return number;
  return number == 1 ? members_ : number - 1;
}

int DoubleTree::at(int tree, int place) const {
  if (tree == 0) return place;
  return place == members_ ? 1 : place + 1;
}

int DoubleTree::parent(int tree, int number) const {
  const int p = place(tree, number), low = p & -p;
  const int up = (p ^ low) | (low << 1);  // of the full tree
  const int parent = up <= members_ ? up : p ^ low;
  return parent == 0 ? 0 : at(tree, parent);
}

std::vector<int> DoubleTree::children(int tree, int number) const {
  std::vector<int> children;
  const int p = place(tree, number), half = (p & -p) / 2;
  if (half > 0) children.push_back(at(tree, p - half));
  int right = half;
  while (right > 0 && p + right > members_) right /= 2;
  if (right > 0) children.push_back(at(tree, p + right));
  return children;
}

int DoubleTree::top(int tree) const {
  return at(tree, static_cast<int>(std::bit_floor(static_cast<unsigned>(members_))));
}

int DoubleTree::depth(int tree, int number) const {
  int hops = 0;
  while ((number = parent(tree, number)) != 0) hops++;
  return hops;
}

int DoubleTree::deepest(int tree) const {
  int deepest = top(tree), most = 0;
  for (int number = 1; number <= members_; number++)
    if (const int hops = depth(tree, number); hops > most) {
      deepest = number;
      most = hops;
    }
  return deepest;
}

Schedule make_double_tree(const Collective& collective, int rank, int size,
                          const schedule::Basis& basis) {
  if (size == 1) return make_alone("double_tree", collective);
  const DoubleTree trees(collective, basis);
  const bool gathers = collective.operation != tbcclOpBroadcast;
  Draft draft("double_tree", collective, rank, size, kTrees, !gathers);
  if (trees.rooted() && rank == collective.root)
    return make_root(std::move(draft), trees, collective);
  int slot = draft.kept_slots();
  for (int tree = 0; tree < kTrees; tree++) {
    Part part(draft, trees, collective, tree, rank);
    if (gathers) slot = part.gather(slot, !trees.rooted());
    if (collective.operation != tbcclOpReduce) part.spread(gathers);
  }
  draft.scratch_slots(slot - draft.kept_slots());
  return draft.take();
}

Cost cost_double_tree(const Collective& collective, uint64_t bytes, const schedule::Basis& basis) {
  const int n = basis.size;
  Load load;
  if (n == 1) return price(load, bytes, basis);
  const DoubleTree trees(collective, basis);
  const bool up = collective.operation != tbcclOpBroadcast;
  const bool down = collective.operation != tbcclOpReduce;
  const int ways = up && down ? 2 : 1;
  const double vector = static_cast<double>(bytes), half = vector / kTrees;
  const double first = first_segment(half);
  const double held = 2 * basis.cpu_byte + (up ? basis.gamma : 0);  // ns a byte
  for (int tree = 0; tree < kTrees; tree++) {
    const int hops = trees.depth(tree, trees.deepest(tree)) + (trees.rooted() ? 1 : 0);
    load.steps = std::max(load.steps, ways * hops);
    load.latency =
        std::max(load.latency, ways * way_ns(trees, tree, collective, first, held, basis));
  }
  for (int number = 1; number <= trees.members(); number += sample_stride(n)) {
    std::vector<Carried> out, in;
    int messages = 0, combined = 0;
    for (int tree = 0; tree < kTrees; tree++) {
      const int parent = trees.parent(tree, number);
      if (parent != 0 || trees.rooted()) {
        const int peer = parent == 0 ? collective.root : trees.rank(parent);
        if (up) carry(out, peer, half);
        if (down) carry(in, peer, half);
        messages += ways;
      }
      for (int child : trees.children(tree, number)) {
        if (up) carry(in, trees.rank(child), half);
        if (down) carry(out, trees.rank(child), half);
        messages += ways;
        combined += up ? 1 : 0;
      }
    }
    const int rank = trees.rank(number);
    load.wire = std::max({load.wire, busiest_ns(out, rank, basis), busiest_ns(in, rank, basis)});
    if (messages > load.busiest.messages)
      load.busiest = {static_cast<double>(messages), messages * half, combined * half, half};
  }
  if (!up) load.busiest.staged = 0;
  if (trees.rooted()) {
    std::vector<Carried> root;
    for (int tree = 0; tree < kTrees; tree++) carry(root, trees.rank(trees.top(tree)), half);
    load.wire = std::max(load.wire, busiest_ns(root, collective.root, basis));
  }
  const double messages = 2.0 * kTrees * ways * (n - 1);  // sent and received by all ranks
  load.average = {messages / n, messages / n * half, up ? kTrees * half * (n - 1) / n : 0};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
