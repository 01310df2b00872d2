// The schedules of a whole group, for tests.
#pragma once

#include <vector>

#include "algorithms/algorithms.h"
#include "schedule/verify.h"

namespace tbccl::testing {

inline schedule::Basis ranks(int n) {
  schedule::Basis basis;
  basis.size = n;
  return basis;
}

inline std::vector<schedule::Schedule> make_all(const algorithms::Algorithm& algorithm,
                                                const schedule::Collective& collective,
                                                const schedule::Basis& basis) {
  std::vector<schedule::Schedule> all;
  for (int rank = 0; rank < basis.size; rank++)
    all.push_back(algorithm.make(collective, rank, basis.size, basis));
  return all;
}

}  // namespace tbccl::testing
