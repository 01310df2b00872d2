// fmt::format, compiled once for the whole library. fmt is used header-only, so that who links the
// library need not have it; every file that calls fmt::format itself compiles fmt's whole inside,
// which takes longer than most files of this library.
#pragma once

#include <fmt/core.h>

#include <string>

namespace tbccl {

std::string formatted_args(fmt::string_view format, fmt::format_args args);

template <class... A>
std::string formatted(fmt::format_string<A...> format, A&&... args) {
  return formatted_args(format, fmt::make_format_args(args...));
}

}  // namespace tbccl
