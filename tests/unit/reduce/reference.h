// An independent scalar reference for every legal (type, operator) pair: wide arithmetic and
// explicit rounding, one element at a time, no regard for speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tbccl/tbccl.h"

namespace reference {

// A small float format by its parameters.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;  // false: OCP e4m3fn
  int width() const { return 1 + exponent_bits + mantissa_bits; }
};

constexpr Format kHalf{5, 10, true};
constexpr Format kBfloat16{8, 7, true};
constexpr Format kE4m3{4, 3, false};
constexpr Format kE5m2{5, 2, true};

double decode(const Format& format, uint32_t bits);
uint32_t encode(const Format& format, double value);  // nearest, ties to even; NaN canonical

using Element = std::vector<unsigned char>;  // the bytes of one element

// Left to right over `sources`; the last step divides by `divisor` (1: does not).
Element fold(tbcclDataType_t type, tbcclRedOp_t op, const std::vector<Element>& sources,
             int32_t divisor);
Element scale(tbcclDataType_t type, const Element& scalar, const Element& value);

// Bit patterns that go wrong first: extremes, zeros of both signs, denormals, infinities, NaNs.
std::vector<Element> awkward(tbcclDataType_t type);

extern const std::vector<tbcclDataType_t> kTypes;
extern const std::vector<tbcclRedOp_t> kOps;
bool legal(tbcclDataType_t type, tbcclRedOp_t op);  // as tbccl.h says it
size_t bytes(tbcclDataType_t type);

}  // namespace reference
