// Gather and scatter along the k-nomial tree of tree.cpp: log_k n steps, any n and root.
//
// Plan.  The subtree of v, v and the numbers after it, is the ranks from v's on, around the end of
//   the ranks: what a rank passes on is one range of blocks, or two where it goes around the end.
//
//   scatter   v receives the blocks of its subtree, and sends each child those of the child's
//   gather    v receives from each child the blocks of the child's subtree, and sends all of them,
//             with its own, to its parent
//
//   n = 4, root 1:    1 -- 2 | 3 | 0        blocks  3 and 0 go to rank 3 in two messages,
//                     v:   0   2 -- 3       which keeps 3 and passes 0 on
//
// Buffers.  The root's user buffer holds all blocks; one that passes blocks on keeps them in
//   scratch, where the first slot begins with its own block and the second with block 0. A leaf
//   needs none. Its own block a rank copies between scratch and the user's buffer: less than a
//   message of its own.
// Cost.  log_k n latencies instead of the root's n - 1 messages; a block travels as many times as
//   its rank is hops away: for small blocks and many ranks.
#include <algorithm>

#include "algorithms/draft.h"
#include "algorithms/tree.h"

namespace tbccl::algorithms {

namespace {

// The blocks of one subtree, or of the part of it before or after the end of the ranks.
struct Part {
  Range range;
  int tag = 0;  // 0: before the end, 1: after
};

class Blocks {
 public:
  Blocks(const Collective& collective, int rank, int size, const Knomial& tree)
      : tree_(tree),
        size_(size),
        root_(collective.root),
        v_((rank - root_ + size) % size),
        rank_(rank),
        passes_on_(v_ != 0 && tree.subtree(v_) > 1) {}

  bool passes_on() const { return passes_on_; }
  bool root() const { return v_ == 0; }
  int slots() const { return !passes_on_ ? 0 : rank_ + tree_.subtree(v_) > size_ ? 2 : 1; }
  int own() const { return v_; }
  int parent() const { return tree_.parent(v_); }
  std::vector<int> children() const { return tree_.children(v_); }
  Affine rank_of(int v) const { return fixed((v + root_) % size_); }

  std::vector<Part> parts(int v) const {
    const int first = (v + root_) % size_, count = tree_.subtree(v);
    const int before = std::min(count, size_ - first);
    std::vector<Part> parts = {{{fixed(first), before}, 0}};
    if (count > before) parts.push_back({{fixed(0), count - before}, 1});
    return parts;
  }

  // Where a range lies at a rank that passes it on: in the first slot if it is in the part that
  // begins with the own block.
  Operand kept(const Range& range) const {
    const bool before = range.piece.at(0) >= rank_;
    return before ? scratch(fixed(0), rank_) : scratch(fixed(1), 0);
  }

 private:
  const Knomial& tree_;
  int size_, root_, v_, rank_;
  bool passes_on_;
};

Schedule make_scatter(Draft draft, const Blocks& blocks, const Collective& collective, int rank) {
  const Range mine{fixed(rank)};
  std::vector<int16_t> received(2, kNoPhase);
  for (const Part& part : blocks.parts(blocks.own())) {
    if (blocks.root()) break;
    const Operand to = blocks.passes_on() ? blocks.kept(part.range) : output();
    received[static_cast<size_t>(part.tag)] =
        draft.recv(1, blocks.rank_of(blocks.parent()), part.range, fixed(part.tag), to, {});
  }
  std::vector<int> children = blocks.children();
  std::reverse(children.begin(), children.end());  // the largest subtrees first
  for (int child : children)
    for (const Part& part : blocks.parts(child)) {
      const Operand from = blocks.root() ? input() : blocks.kept(part.range);
      const bool before = part.range.piece.at(0) >= rank;
      draft.send(1, blocks.rank_of(child), part.range, fixed(part.tag), from,
                 {done(received[before ? 0 : 1])});
    }
  if (blocks.passes_on())
    draft.copy(mine, blocks.kept(mine), output(), false, {done(received[0])});
  else if (blocks.root() && !collective.in_place)
    draft.copy(mine, input(), output(), false, {});
  return draft.take();
}

Schedule make_gather(Draft draft, const Blocks& blocks, int rank) {
  const Range mine{fixed(rank)};
  // What the parts that go to the parent wait for.
  std::vector<std::vector<Dep>> has(2);
  if (blocks.passes_on())
    has[0].push_back(done(draft.copy(mine, draft.own(), blocks.kept(mine), false, {})));
  for (int child : blocks.children())
    for (const Part& part : blocks.parts(child)) {
      const Operand to = blocks.root() ? output() : blocks.kept(part.range);
      const bool before = part.range.piece.at(0) >= rank;
      has[before ? 0 : 1].push_back(
          done(draft.recv(1, blocks.rank_of(child), part.range, fixed(part.tag), to, {})));
    }
  for (const Part& part : blocks.parts(blocks.own())) {
    if (blocks.root()) break;
    const Operand from = blocks.passes_on() ? blocks.kept(part.range) : draft.own();
    draft.send(1, blocks.rank_of(blocks.parent()), part.range, fixed(part.tag), from,
               has[static_cast<size_t>(part.tag)]);
  }
  if (blocks.root() && !draft.in_place()) draft.copy(mine, input(), output(), false, {});
  return draft.take();
}

}  // namespace

Schedule make_tree_blocks(const Collective& collective, int rank, int size, const Knomial& tree) {
  Draft draft("tree", collective, rank, size, 1, true);
  const Blocks blocks(collective, rank, size, tree);
  draft.scratch_slots(blocks.slots());
  if (collective.operation == tbcclOpScatter)
    return make_scatter(std::move(draft), blocks, collective, rank);
  return make_gather(std::move(draft), blocks, rank);
}

Cost cost_tree_blocks(const Collective& collective, uint64_t bytes, const schedule::Basis& basis,
                      const Knomial& tree) {
  const int n = basis.size;
  const double block = static_cast<double>(bytes) / n;
  Load load;
  load.steps = tree.depth();
  load.latency =
      deepest_latency(tree, collective.root, first_segment(block), 2 * basis.cpu_byte, basis);
  double hops = 0, looked_at = 0;  // of all blocks: the sum of all subtrees below the root
  for (int v = 0; v < n; v += sample_stride(n)) {
    double network = 0;
    for (int child : tree.children(v)) {
      const int a = (v + collective.root) % n, b = (child + collective.root) % n;
      const double wire = tree.subtree(child) * block / basis.rate(a, b);
      if (uses_network(basis, a, b)) network += wire;
      load.wire = std::max({load.wire, wire, network});
    }
    hops += v == 0 ? 0 : tree.subtree(v);
    looked_at++;
  }
  // The root; and what is the most for others, the blocks of the largest subtree in scratch.
  const std::vector<int> children = tree.children(0);
  int largest = 0;
  for (int child : children) largest = std::max(largest, tree.subtree(child));
  load.busiest = {static_cast<double>(children.size()), (n - 1) * block, 0,
                  largest > 1 ? largest * block : 0};
  load.average = {2.0 * (n - 1) / n, 2 * hops / looked_at * block, 0};
  return price(load, bytes, basis);
}

}  // namespace tbccl::algorithms
