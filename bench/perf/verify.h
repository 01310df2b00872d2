// What every rank contributes and what must come out, as pure functions of (seed, index, rank).
//
// No rank needs another's data to know the right result, and the right result is one bit pattern
// whatever the order of combination:
//  - float sums: the integers that an element's ranks contribute, all times one power of two, have
//    positive and negative sums within the exactly representable range, so every partial sum of
//    every subset is exact. Signs alternate between ranks; zeros appear only where a format has
//    fewer mantissa bits than that many ranks need (float8).
//  - average: the same, and the sum is a multiple of the number of ranks wherever the format can
//    hold one, so the quotient is exact too. Elsewhere see tolerance(). The average of the first
//    ranks alone is the exact sum's quotient, rounded once.
//  - pre-multiplied sum: the sum's contributions, each divided by its rank's scalar (a power of
//    two, for complex times a unit).
//  - product: one rank carries a random mantissa, the others signed powers of two (complex: times
//    1, i, -1 or -i) whose exponents cancel; no partial product leaves the normal range.
//    Of prefixes, rank 0 is the one: a product of complex powers of two has zeros, whose signs
//    depend on the order.
//  - min, max: random finite numbers of middle exponents and both signs.
//  - integers: all bits random, arithmetic wraps; products of odd numbers, which lose no bits;
//    and, or and the logical operators biased so that both outcomes are common.
//  - bool: any non-zero byte is true; results are 0 or 1.
// Nothing here uses the library's own conversions or reductions.
#pragma once

#include <cstdint>
#include <string>

#include "types.h"

namespace tbccl::perf {

struct Data {
  Type type;
  Op op = Op::kSum;
  int ranks = 1;
  uint64_t seed = 0;
  uint64_t block = 0;     // elements of a block, where a buffer has one for each rank
  bool prefixes = false;  // the combinations of the first ranks are exact as well: for scans
};

// Elements [first, first + count) of rank's contribution to a reduction.
void fill_input(const Data& data, int rank, uint64_t first, uint64_t count, void* out);

// The same elements of the result.
void fill_expected(const Data& data, uint64_t first, uint64_t count, void* out);

// The same of the combination of ranks 0 to ranks - 1 alone; `prefixes` must be set.
void fill_prefix(const Data& data, int ranks, uint64_t first, uint64_t count, void* out);

// Bytes [first, first + bytes) of what `rank` sends in a collective that only moves data. `first`
// is a multiple of 8. fill_moved takes any.
void fill_moved(uint64_t seed, int rank, uint64_t first, uint64_t bytes, void* out);
void fill_bytes(uint64_t seed, int rank, uint64_t first, uint64_t bytes, void* out);

// The scalar that `rank` gives to a pre-multiplied sum.
void fill_scalar(const Type& type, int rank, void* out);

// Elements that repeated in-place reduction leaves in the normal range: one for products, zero
// otherwise. For timing only.
void fill_neutral(const Type& type, Op op, uint64_t count, void* out);

// By how many units in the last place a right result may differ: 0, but for the average of
// float8 over more ranks than the format counts to (1, where that number is no power of two).
int tolerance(const Data& data);

// Elements of `got` that differ from `expected` by more than `ulps`; *first is the first one's
// index.
uint64_t count_wrong(const Type& type, const void* got, const void* expected, uint64_t count,
                     int ulps, uint64_t* first);

// One element for an error message: its bit pattern, and its value if it has one.
std::string element_text(const Type& type, const void* element);

}  // namespace tbccl::perf
