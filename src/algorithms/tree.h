// The k-nomial tree (tree.cpp), and the part of it that has a file of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

// Ranks counted from the root: v. Written with radix k, v's parent is v without its lowest digit
// that is not 0, and v's children are v with one digit more, below that: so a subtree is v and the
// numbers after it.
class Knomial {
 public:
  Knomial(int size, int radix) : size_(size), radix_(radix) {}

  int radix() const { return radix_; }
  int parent(int v) const;
  // So many numbers from v on.
  int subtree(int v) const;
  std::vector<int> children(int v) const;  // in their order
  // The same in groups, one for each digit: all of a group are ready at about the same time.
  std::vector<std::vector<int>> levels(int v) const;
  int depth() const;    // hops to the deepest number
  int deepest() const;  // the first of those: all its digits are ones

 private:
  // The power of k that goes with v's lowest digit that is not 0; of the root the first that is at
  // least n.
  int64_t place(int v) const;

  int size_, radix_;
};

// The tree with the radix, none above `most`, that the basis makes the fastest for short messages.
Knomial knomial_tree(const schedule::Basis& basis, int most = 16);

// Gather and scatter, for at least two ranks.
schedule::Schedule make_tree_blocks(const schedule::Collective&, int rank, int size,
                                    const Knomial&);
Cost cost_tree_blocks(const schedule::Collective&, uint64_t bytes, const schedule::Basis&,
                      const Knomial&);

// From the root to the deepest number: alpha of every hop, and, after the first, the time of the
// `first` bytes that a rank has before it passes any on, with `held` ns of its processor for each.
double deepest_latency(const Knomial& tree, int root, double first, double held,
                       const schedule::Basis&);
}  // namespace tbccl::algorithms
