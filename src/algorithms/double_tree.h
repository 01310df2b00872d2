// The shape of the double tree (double_tree.cpp).
#pragma once

#include <vector>

#include "algorithms/order.h"
#include "schedule/schedule.h"

namespace tbccl::algorithms {

// Two binary trees over the same ranks, numbered 1 .. members along the cables. If the operation
// has a root, that is no member: the tops of both trees are its children.
class DoubleTree {
 public:
  DoubleTree(const schedule::Collective& collective, const schedule::Basis& basis);

  bool rooted() const { return rooted_; }
  int members() const { return members_; }
  int rank(int number) const;
  int number(int rank) const;  // 0: the root
  // 0: a top, whose parent is the root if there is one.
  int parent(int tree, int number) const;
  std::vector<int> children(int tree, int number) const;  // the left one first
  int top(int tree) const;
  int depth(int tree, int number) const;  // hops from the top
  int deepest(int tree) const;            // the first number that is the furthest from the top

 private:
  // Where a number stands in a tree, and who stands there.
  int place(int tree, int number) const;
  int at(int tree, int place) const;

  RingOrder ring_;
  int size_, members_;
  int start_;  // position of number 0
  bool rooted_;
};

}  // namespace tbccl::algorithms
