// Numbers as people write them in the environment. Floating from_chars is missing in LLVM 16's
// libc++ and strtod depends on the locale, so decimal fractions are read digit by digit.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tbccl {

// "12", "0.5", ".25", "3." times `unit` (a power of ten), truncated; nothing for anything else, or
// when the result would be above `largest`.
std::optional<uint64_t> parse_decimal(std::string_view text, uint64_t unit, uint64_t largest);

// "65536", "64K", "1M", "1G" (binary, either case); nothing for anything else or above `largest`.
std::optional<uint64_t> parse_bytes(std::string_view text, uint64_t largest);

}  // namespace tbccl
