#include "algorithms/trees.h"

#include <algorithm>

#include "algorithms/account.h"
#include "algorithms/draft.h"

namespace tbccl::algorithms {

namespace {

// Chunks of a phase: one on the wire, one being acknowledged.
constexpr int kUnderWay = 2;

bool is_all_reduce(const Collective& c) {
  return c.operation == tbcclOpAllReduce || c.operation == tbcclOpBarrier;
}

// One tree as one rank sees it.
struct Place {
  Place(const Tree& tree, int rank) : parent(tree.parent[static_cast<size_t>(rank)]) {
    for (size_t child = 0; child < tree.parent.size(); child++)
      if (tree.parent[child] == rank) children.push_back(static_cast<int>(child));
  }
  bool is_root() const { return parent < 0; }
  int parent;
  std::vector<int> children;
};

// Appends what a rank does with one tree after the other.
class Walk {
 public:
  Walk(Draft& draft, const Collective& collective, int rank, int chunks)
      : draft_(draft),
        rank_(rank),
        chunks_(chunks),
        up_(combines_up(collective)),
        down_(passes_down(collective)) {
    // Partial sums wait in one slot, each byte at its place in the vector: trees share no bytes. An
    // all-reduce keeps them there too, because what is sent up may be overwritten only when it is
    // released as a whole, and results that come down should not have to wait for that.
    if (up_) draft_.scratch_slots(1);
  }

  // `first` piece of the tree's part.
  void add(const Tree& tree, int number, int first) {
    const Place place(tree, rank_);
    const Range range{counting(first * chunks_, tree.pieces), tree.pieces};
    const Affine up_tag = counting(2 * number * chunks_),
                 down_tag = counting((2 * number + 1) * chunks_);
    const Operand kept = scratch(fixed(draft_.kept_slots()), 0);
    Operand from = draft_.own(range.piece);
    std::vector<Dep> has = draft_.ready();
    if (up_) {
      const Operand sum = place.is_root() ? output() : kept;
      for (size_t k = 0; k < place.children.size(); k++) {
        const bool last = k + 1 == place.children.size();
        has = {done(draft_.recv_reduce(chunks_, fixed(place.children[k]), range, up_tag, from, sum,
                                       false, place.is_root() && last, has),
                    0)};
        from = sum;
      }
      if (down_ && !place.is_root() && from == output()) {
        has = {done(
            draft_.copy({fixed(first * chunks_), tree.pieces * chunks_}, from, kept, false, has))};
        from = kept;
      }
      if (!place.is_root()) {
        std::vector<Dep> deps = has;
        if (chunks_ > 1) deps.push_back(paced());
        draft_.send(chunks_, fixed(place.parent), range, up_tag, from, deps);
      }
    }
    if (!down_) return;
    if (!place.is_root()) {
      // The own contribution may lie where the result goes.
      const bool overwrites = up_ && draft_.in_place();
      has = {done(draft_.recv(chunks_, fixed(place.parent), range, down_tag, output(),
                              overwrites ? has : std::vector<Dep>()),
                  0)};
      from = output();
    }
    for (int child : place.children) {
      std::vector<Dep> deps = has;
      if (chunks_ > 1) deps.push_back(paced());
      draft_.send(chunks_, fixed(child), range, down_tag, from, deps);
    }
  }

 private:
  // Of the phase to come: only so many of its chunks are on their way at once.
  Dep paced() const { return released(draft_.next(), -kUnderWay); }

  Draft& draft_;
  int rank_;
  int chunks_;  // of each tree's part
  bool up_, down_;
};

// The deepest path of a tree.
struct Way {
  int levels = 0;  // both ways, where a collective goes both
  double ns = 0;
};

// Every hop but the last passes its first segment on before it does anything else with it. Where
// several children's parts are combined, each begins when the one before has left its first
// segment.
Way deepest(const Tree& tree, double chunk, bool up, bool down, const schedule::Basis& basis) {
  const double first = std::min(chunk, kFirstSegment);
  std::vector<int> children(tree.parent.size(), 0);
  for (int parent : tree.parent)
    if (parent >= 0) children[static_cast<size_t>(parent)]++;
  const int ways = up && down ? 2 : 1;
  Way most;
  for (size_t leaf = 0; leaf < tree.parent.size(); leaf++) {
    Way way;
    double last = 0;
    for (int v = static_cast<int>(leaf); v != tree.root; way.levels += ways) {
      const int to = tree.parent[static_cast<size_t>(v)];
      last = passing_ns(chunk, v, to, basis);
      way.ns += ways * (basis.alpha(v, to) + last);
      if (up) way.ns += (children[static_cast<size_t>(to)] - 1) * (last + first * basis.gamma);
      v = to;
    }
    most.levels = std::max(most.levels, way.levels);
    most.ns = std::max(most.ns, way.ns - last);
  }
  return most;
}

}  // namespace

bool combines_up(const Collective& collective) { return schedule::reduces(collective.operation); }

bool passes_down(const Collective& collective) {
  return is_all_reduce(collective) || !combines_up(collective);
}

int forest_blocks(const Collective& collective, int size) {
  return schedule::vector_blocks(collective.operation, size);
}

int forest_root(const Collective& collective, int block) {
  if (is_all_reduce(collective)) return -1;
  const tbcclOperation_t o = schedule::uniform(collective.operation);
  return o == tbcclOpBroadcast || o == tbcclOpReduce ? collective.root : block;
}

Schedule make_on_trees(const char* algorithm, const Forest& forest, const Collective& collective,
                       int rank, int size) {
  Draft draft(algorithm, collective, rank, size, forest.pieces * forest.chunks, false,
              Apart::kOneSlot);
  Walk walk(draft, collective, rank, forest.chunks);
  std::vector<int> taken(static_cast<size_t>(forest_blocks(collective, size)), 0);
  for (size_t t = 0; t < forest.trees.size(); t++) {
    const Tree& tree = forest.trees[t];
    int& first = taken[static_cast<size_t>(tree.block)];
    walk.add(tree, static_cast<int>(t), tree.block * forest.pieces + first);
    first += tree.pieces;
  }
  const tbcclOperation_t o = schedule::uniform(collective.operation);
  if (o == tbcclOpBroadcast && rank == collective.root && !draft.in_place())
    draft.copy(draft.all(), input(), output(), false, {});
  if (o == tbcclOpAllGather && !draft.in_place())
    draft.copy({fixed(rank * forest.pieces * forest.chunks), forest.pieces * forest.chunks},
               input(), output(), false, {});
  return draft.take();
}

Cost cost_on_trees(const Forest& forest, const Collective& collective, uint64_t bytes,
                   const schedule::Basis& basis) {
  const bool up = combines_up(collective), down = passes_down(collective);
  const double piece =
      static_cast<double>(bytes) / forest_blocks(collective, basis.size) / forest.pieces;
  Load load;
  Account account(basis);
  for (const Tree& tree : forest.trees) {
    const double part = piece * tree.pieces;
    for (int v = 0; v < basis.size; v++) {
      const int parent = tree.parent[static_cast<size_t>(v)];
      if (parent < 0) continue;
      if (up) account.carry(v, parent, part, forest.chunks, true);
      if (down) account.carry(parent, v, part, forest.chunks, false);
    }
    const Way way = deepest(tree, part / forest.chunks, up, down, basis);
    load.steps = std::max(load.steps, way.levels);
    load.latency = std::max(load.latency, way.ns);
  }
  account.add_to(load);
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
