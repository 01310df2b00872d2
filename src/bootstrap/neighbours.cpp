#include "bootstrap/neighbours.h"

#include <set>

namespace tbccl::bootstrap {

std::vector<uint32_t> tree_children(uint32_t rank, uint32_t size) {
  std::vector<uint32_t> children;
  for (const uint64_t child : {2 * uint64_t{rank} + 1, 2 * uint64_t{rank} + 2}) {
    if (child < size) children.push_back(static_cast<uint32_t>(child));
  }
  return children;
}

std::vector<uint32_t> neighbours(uint32_t rank, uint32_t size) {
  std::set<uint32_t> all;
  if (size <= kFullMeshRanks) {
    for (uint32_t other = 0; other < size; ++other) all.insert(other);
  } else {
    all.insert((rank + 1) % size);
    all.insert((rank + size - 1) % size);
    if (rank > 0) all.insert(tree_parent(rank));
    for (const uint32_t child : tree_children(rank, size)) all.insert(child);
  }
  all.erase(rank);
  return {all.begin(), all.end()};
}

}  // namespace tbccl::bootstrap
