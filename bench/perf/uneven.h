// Blocks of unequal sizes, for the operations with variable counts: of n ranks' blocks the first
// holds `unit` elements, the second 2 * unit, the last n * unit.
#pragma once

#include <vector>

#include "collective.h"

namespace tbccl::perf {

inline uint64_t block_weights(int ranks) {
  const auto n = static_cast<uint64_t>(ranks);
  return n * (n + 1) / 2;
}

// For counts(): the count is the unit, the size that of all blocks.
inline Counts uneven_blocks(uint64_t bytes, uint64_t element, int ranks) {
  const uint64_t unit = bytes / element / block_weights(ranks);
  return {unit, unit * element * block_weights(ranks)};
}

// Which of these sizes the blocks of a buffer have: as they are, or turned by `turn` blocks.
struct UnevenBlocks {
  uint64_t unit = 0;
  int ranks = 1;
  int turn = 0;

  uint64_t size(int block) const {
    return unit * static_cast<uint64_t>((block + turn) % ranks + 1);
  }
  uint64_t begin(int block) const {
    uint64_t sum = 0;
    for (int b = 0; b < block; ++b) sum += size(b);
    return sum;
  }
  uint64_t total() const { return unit * block_weights(ranks); }
  std::vector<size_t> counts() const {
    std::vector<size_t> all;
    for (int block = 0; block < ranks; ++block) all.push_back(size(block));
    return all;
  }
};

inline UnevenBlocks blocks_of(const Job& job, uint64_t unit) { return {unit, job.ranks, 0}; }
inline UnevenBlocks blocks_of(const Data& data) { return {data.block, data.ranks, 0}; }

// Elements [first, first + count) of a buffer of such blocks, of which number b is what rank
// from(b) has from its element at(b) on.
template <class From, class At>
void fill_uneven(const Data& data, const UnevenBlocks& blocks, uint64_t first, uint64_t count,
                 void* out, From from, At at) {
  auto* to = static_cast<unsigned char*>(out);
  const uint64_t element = data.type.bytes;
  uint64_t begin = 0;
  for (int block = 0; block < blocks.ranks && count > 0; ++block) {
    const uint64_t end = begin + blocks.size(block);
    if (first < end) {
      const uint64_t part = std::min(count, end - first);
      fill_moved(data.seed, from(block), (at(block) + first - begin) * element, part * element, to);
      to += part * element;
      first += part;
      count -= part;
    }
    begin = end;
  }
}

}  // namespace tbccl::perf
