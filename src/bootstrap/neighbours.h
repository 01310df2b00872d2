// Which ranks keep a control connection to each other. Pure arithmetic.
//
// Up to eight ranks: all. More: a binary tree by rank (0 at the top, children 2r+1 and 2r+2) and
// a ring. Without any one rank the ring is still a path through all others, so what is flooded
// reaches everyone.
#pragma once

#include <cstdint>
#include <vector>

namespace tbccl::bootstrap {

inline constexpr uint32_t kFullMeshRanks = 8;

inline uint32_t tree_parent(uint32_t rank) { return (rank - 1) / 2; }  // rank > 0
std::vector<uint32_t> tree_children(uint32_t rank, uint32_t size);
// Ascending, without `rank`. Symmetric: b is in a's exactly where a is in b's.
std::vector<uint32_t> neighbours(uint32_t rank, uint32_t size);

}  // namespace tbccl::bootstrap
