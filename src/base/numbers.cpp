#include "base/numbers.h"

namespace tbccl {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// value * factor + addend, if that is at most `largest`.
std::optional<uint64_t> times_plus(uint64_t value, uint64_t factor, uint64_t addend,
                                   uint64_t largest) {
  if (addend > largest || value > (largest - addend) / factor) return std::nullopt;
  return value * factor + addend;
}

}  // namespace

std::optional<uint64_t> parse_decimal(std::string_view text, uint64_t unit, uint64_t largest) {
  const size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  const std::string_view part = dot == std::string_view::npos ? "" : text.substr(dot + 1);
  if (whole.empty() && part.empty()) return std::nullopt;
  uint64_t units = 0;
  for (const char c : whole) {
    if (!is_digit(c)) return std::nullopt;
    const auto next = times_plus(units, 10, static_cast<uint64_t>(c - '0'), largest);
    if (!next) return std::nullopt;
    units = *next;
  }
  uint64_t fraction = 0;
  uint64_t weight = unit;
  for (const char c : part) {
    if (!is_digit(c)) return std::nullopt;
    weight /= 10;  // digits below one part of the unit weigh nothing
    fraction += weight * static_cast<uint64_t>(c - '0');
  }
  return times_plus(units, unit, fraction, largest);
}

std::optional<uint64_t> parse_bytes(std::string_view text, uint64_t largest) {
  uint64_t unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        unit = uint64_t{1} << 10;
        break;
      case 'm':
      case 'M':
        unit = uint64_t{1} << 20;
        break;
      case 'g':
      case 'G':
        unit = uint64_t{1} << 30;
        break;
      default:
        break;
    }
    if (unit != 1) text.remove_suffix(1);
  }
  if (text.find('.') != std::string_view::npos) return std::nullopt;
  const auto count = parse_decimal(text, 1, largest);
  return count ? times_plus(*count, unit, 0, largest) : std::nullopt;
}

}  // namespace tbccl
