// The pseudo-random functions behind verify.h, and the families it is made of.
#pragma once

#include <cstdint>

#include "verify.h"

namespace tbccl::perf {

// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline uint64_t element_hash(uint64_t seed, uint64_t index) { return mix(mix(seed) ^ index); }
inline uint64_t rank_hash(uint64_t element, int rank) {
  return mix(element + 0xd1342543de82ef95u * static_cast<uint64_t>(rank + 1));
}

// A number below `bound`, from one hash.
inline uint64_t below(uint64_t hash, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * bound) >> 64);
}

// In place of a rank: the combination of the first `ranks` ranks.
inline constexpr int combined(int ranks) { return -ranks; }
inline constexpr bool is_combined(int rank) { return rank < 0; }

// Contribution of `rank`, or a combination, for the elements [first, first + count).
void fill_integers(const Data& data, int rank, uint64_t first, uint64_t count, void* out);
void fill_floats(const Data& data, int rank, uint64_t first, uint64_t count, void* out);
void fill_complex(const Data& data, int rank, uint64_t first, uint64_t count, void* out);

void fill_integer_scalar(const Type& type, int rank, void* out);
void fill_float_scalar(const Type& type, int rank, void* out);

}  // namespace tbccl::perf
