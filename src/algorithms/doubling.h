// Who exchanges with whom in recursive doubling (doubling.cpp), and the parts of it that have
// files of their own.
#pragma once

#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/order.h"

namespace tbccl::algorithms {

// Ranks on the corners of a hypercube, in their own order or in that of a ring along the cables.
class Cube {
 public:
  Cube(const schedule::Basis& basis, bool along_ring);

  const Corners& corners() const { return corners_; }
  int place(int rank) const;                                              // in the order
  int at(int place) const { return order_[static_cast<size_t>(place)]; }  // the rank
  int rank(int corner) const { return at(corners_.rank(corner)); }
  // The corner that this one exchanges with in step k: of the other half of their 2^(k+1).
  int partner(int corner, int k) const { return corner ^ masks_[static_cast<size_t>(k)]; }

 private:
  int mask(const schedule::Basis& basis, int k) const;

  Corners corners_;
  std::vector<int> order_;
  std::vector<int> masks_;
};

// All-gather, for at least two ranks, in the order of ranks.
schedule::Schedule make_doubling_blocks(const schedule::Collective&, const Cube& cube, int rank,
                                        int size);
Cost cost_doubling_blocks(const Cube& cube, uint64_t bytes, const schedule::Basis&);
// Scans, likewise.
schedule::Schedule make_doubling_scan(const schedule::Collective&, int rank, int size);
Cost cost_doubling_scan(const schedule::Collective&, uint64_t bytes, const schedule::Basis&);

}  // namespace tbccl::algorithms
