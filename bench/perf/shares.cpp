#include "shares.h"

#include <algorithm>

#include "verify_random.h"

namespace tbccl::perf {
namespace {

constexpr int kWidestExponent = 20;  // float and double need not go to their ends

// An exponent e with which every integer up to 2^precision stays a normal number, and one binary
// place of room on both sides for the scalars of pre-multiplied sums.
int common_exponent(const Limits& limits, uint64_t element) {
  const int low = std::max(limits.lowest + 1, -kWidestExponent - limits.precision);
  const int high = std::min(limits.highest - 1 - limits.precision, kWidestExponent);
  return low + static_cast<int>(below(mix(element ^ 1), static_cast<uint64_t>(high - low + 1)));
}

// The i-th of the ranks that have the sign `negative`, in an order turned by `turn`.
struct Side {
  int begin;  // ranks begin, begin + step, ... below size
  int step;
  int count;
  int turn;
  int rank(int i) const { return begin + step * ((i + turn) % count); }
};

// Splits `total` into `members` shares of at least 1 (zeros past the total), the last taking what
// is left.
void split(uint64_t element, const Side& side, uint64_t total, bool negative, int exponent,
           std::span<Number> parts) {
  const int members = static_cast<int>(std::min<uint64_t>(total, side.count));
  uint64_t spare = total - static_cast<uint64_t>(members);
  for (int i = 0; i < side.count; ++i) {
    const int rank = side.rank(i);
    Number& part = parts[static_cast<size_t>(rank)];
    if (i >= members) {
      part = {};
      continue;
    }
    const uint64_t extra = i == members - 1 ? spare : below(rank_hash(element, rank), spare + 1);
    spare -= extra;
    part = {negative, 1 + extra, exponent};
  }
}

Side side_of(uint64_t element, int begin, int step, int size) {
  Side side{begin, step, begin < size ? (size - begin + step - 1) / step : 0, 0};
  if (side.count > 0) {
    side.turn = static_cast<int>(below(mix(element ^ 2), static_cast<uint64_t>(side.count)));
  }
  return side;
}

// A total between `least` and `most`, favouring none of the magnitudes.
uint64_t between(uint64_t hash, uint64_t least, uint64_t most) {
  return least + below(hash, most - least + 1);
}

}  // namespace

void sum_shares(const Limits& limits, uint64_t element, std::span<Number> parts) {
  const uint64_t most = uint64_t{1} << limits.precision;
  const int exponent = common_exponent(limits, element);
  const int size = static_cast<int>(parts.size());
  const bool flip = (element >> 63) != 0;
  for (int parity = 0; parity < std::min(size, 2); ++parity) {
    const Side side = side_of(element, parity, 2, size);
    const uint64_t least = std::min<uint64_t>(static_cast<uint64_t>(side.count), most);
    const uint64_t total = between(mix(element ^ static_cast<uint64_t>(3 + parity)), least, most);
    split(element, side, total, (parity != 0) != flip, exponent, parts);
  }
}

void average_shares(const Limits& limits, uint64_t element, std::span<Number> parts) {
  const uint64_t most = uint64_t{1} << limits.precision;
  const uint64_t size = parts.size();
  const int exponent = common_exponent(limits, element);
  const bool flip = (element >> 63) != 0;
  const uint64_t minus = size / 2;
  if (size > 1 && size + minus <= most) {
    // plus - minus = size * quotient, both within the exact range.
    const uint64_t quotient = between(mix(element ^ 3), 1, (most - minus) / size);
    const uint64_t negative = between(mix(element ^ 4), minus, most - size * quotient);
    const int n = static_cast<int>(size);
    split(element, side_of(element, 0, 2, n), size * quotient + negative, flip, exponent, parts);
    split(element, side_of(element, 1, 2, n), negative, !flip, exponent, parts);
    return;
  }
  const Side everybody = side_of(element, 0, 1, static_cast<int>(size));
  if (size <= most) {
    split(element, everybody, size * between(mix(element ^ 3), 1, most / size), flip, exponent,
          parts);
    return;
  }
  // The format cannot count the ranks. As large as possible, so that the quotient stays normal.
  split(element, everybody, between(mix(element ^ 3), most / 2, most), flip,
        limits.highest - 1 - limits.precision, parts);
}

void product_shares(const Limits& limits, uint64_t element, std::span<Number> parts) {
  const int size = static_cast<int>(parts.size());
  const bool flip = (element >> 63) != 0;
  const int carrier = static_cast<int>(below(mix(element ^ 1), static_cast<uint64_t>(size)));
  const uint64_t top = uint64_t{1} << (limits.precision - 1);
  int room = std::min({-limits.lowest, limits.highest, kWidestExponent}) - 1;
  for (int j = 0; j < size; ++j) {
    const int rank = (carrier + j) % size;
    Number& part = parts[static_cast<size_t>(rank)];
    part = {((rank & 1) != 0) != flip, 1, 0};
    if (j == 0) {
      part.mantissa = top | below(mix(element ^ 2), top);
      part.exponent = -(limits.precision - 1);
    } else if (j % 2 == 1 && j + 1 < size && room > 0) {
      // This rank and the next one cancel.
      const int exponent = static_cast<int>(
          between(rank_hash(element, rank), 1, static_cast<uint64_t>(std::min(room, 2))));
      room -= exponent;
      part.exponent = (rank_hash(element, rank) & 1) != 0 ? exponent : -exponent;
    } else if (j % 2 == 0) {
      part.exponent = -parts[static_cast<size_t>((carrier + j - 1) % size)].exponent;
    }
  }
}

void random_numbers(const Limits& limits, uint64_t element, std::span<Number> parts) {
  const uint64_t top = uint64_t{1} << (limits.precision - 1);
  const int low = std::max(limits.lowest / 2, -kWidestExponent);
  const int high = std::min(limits.highest / 2, kWidestExponent);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const uint64_t random = rank_hash(element, static_cast<int>(rank));
    const int exponent =
        static_cast<int>(below(mix(random), static_cast<uint64_t>(high - low + 1)));
    parts[rank] = {(random & 1) != 0, top | below(random, top),
                   low + exponent - (limits.precision - 1)};
  }
}

Number exact_sum(std::span<const Number> parts) {
  int64_t total = 0;
  int exponent = 0;
  for (const Number& part : parts) {
    if (part.mantissa == 0) continue;
    exponent = part.exponent;
    total +=
        part.negative ? -static_cast<int64_t>(part.mantissa) : static_cast<int64_t>(part.mantissa);
  }
  return {total < 0, static_cast<uint64_t>(total < 0 ? -total : total), exponent};
}

}  // namespace tbccl::perf
