// How one element's target is shared among the ranks, so that every partial result in every order
// is exactly representable in a format with `precision` mantissa bits. Exact numbers; verify_float
// encodes them.
#pragma once

#include <cstdint>
#include <span>

#include "numbers.h"

namespace tbccl::perf {

// The exponents and mantissas a format has to offer.
struct Limits {
  int precision = 24;  // integers up to 2^precision are exact
  int lowest = -126;   // exponents of normal numbers
  int highest = 127;
};

// parts[r]: contribution of rank r to a sum. All integers times one power of two; the positive
// ones add up to at most 2^precision, the negative ones too.
void sum_shares(const Limits& limits, uint64_t element, std::span<Number> parts);

// As sum_shares, and the total is a multiple of parts.size() if the format can count that far.
void average_shares(const Limits& limits, uint64_t element, std::span<Number> parts);

// One mantissa, otherwise signed powers of two. The exponents add up to zero, those of any subset
// stay within the normal range.
void product_shares(const Limits& limits, uint64_t element, std::span<Number> parts);

// Finite numbers of both signs and middle exponents.
void random_numbers(const Limits& limits, uint64_t element, std::span<Number> parts);

// The sum of numbers that have one exponent in common (zeros apart); zero is positive.
Number exact_sum(std::span<const Number> parts);

}  // namespace tbccl::perf
