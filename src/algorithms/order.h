// Orders of the ranks: around a ring along the cables, and as the corners of a hypercube.
#pragma once

#include <vector>

#include "schedule/basis.h"

namespace tbccl::algorithms {

// order[k] is the rank at position k.
struct RingOrder {
  std::vector<int> order;
  bool closed = true;  // the last and the first are joined like any two neighbours
  int position(int rank) const;
};

// The fastest closed ring along cables; else the fastest open line; else, and without cabling,
// all ranks with those of one host side by side. A search over cables is bounded, so that in a
// large irregular cabling a ring may be missed; the result depends on the basis alone.
RingOrder ring_order(const schedule::Basis& basis);

// How `size` ranks stand for 2^dimensions corners: the first 2 * extra ranks are pairs (2k,
// 2k + 1) of which the odd one hands its contribution to the even one, so that every corner
// stands for consecutive ranks and corners are in rank order.
struct Corners {
  int dimensions = 0;
  int extra = 0;
  explicit Corners(int size);
  int count() const { return 1 << dimensions; }
  bool is_extra(int rank) const { return rank < 2 * extra && rank % 2 == 1; }
  bool has_extra(int rank) const { return rank < 2 * extra && rank % 2 == 0; }
  int corner(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  int rank(int corner) const { return corner < extra ? 2 * corner : corner + extra; }
};

}  // namespace tbccl::algorithms
