// Which algorithms keep to the cables.
#include <algorithm>

#include "algorithms/algorithms.h"

namespace tbccl::algorithms {

namespace {

bool keeps_to_cables(const schedule::Schedule& s, const schedule::Basis& basis) {
  for (const schedule::Phase& phase : s.phases) {
    if (phase.kind != schedule::Kind::kSend) continue;
    for (int32_t i = 0; i < phase.repeat; i++)
      if (uses_network(basis, s.rank, phase.peer.at(i))) return false;
  }
  return true;
}

}  // namespace

bool along_cables(const Algorithm& algorithm, const schedule::Collective& collective,
                  const schedule::Basis& basis) {
  if (basis.cables.empty()) return true;
  for (int rank = 0; rank < basis.size; rank += std::max(1, basis.size / kAllRanks))
    if (!keeps_to_cables(algorithm.make(collective, rank, basis.size, basis), basis)) return false;
  return true;
}

}  // namespace tbccl::algorithms
