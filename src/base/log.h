// The logger. Lines look like `host:pid:tid TBCCL WARN text` on stderr, or in the file named by
// TBCCL_DEBUG_FILE (%h host, %p pid). TBCCL_DEBUG = NONE | ERROR | WARN (default) | INFO | TRACE.
// Any thread; a line is written by one system call. Never throws, and leaves errno alone.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace tbccl::log {

enum class Level { kError = 0, kWarn = 1, kInfo = 2, kTrace = 3 };

// The level is read from the environment once, when it is first asked for.
bool enabled(Level level) noexcept;
void write(Level level, std::string_view text) noexcept;
void write_formatted(Level level, fmt::string_view format, fmt::format_args args) noexcept;

template <class... A>
void line(Level level, fmt::format_string<A...> format, A&&... args) noexcept {
  if (!enabled(level)) return;
  write_formatted(level, format, fmt::make_format_args(args...));
}
template <class... A>
void error(fmt::format_string<A...> f, A&&... a) noexcept {
  line(Level::kError, f, std::forward<A>(a)...);
}
template <class... A>
void warn(fmt::format_string<A...> f, A&&... a) noexcept {
  line(Level::kWarn, f, std::forward<A>(a)...);
}
template <class... A>
void info(fmt::format_string<A...> f, A&&... a) noexcept {
  line(Level::kInfo, f, std::forward<A>(a)...);
}
template <class... A>
void trace(fmt::format_string<A...> f, A&&... a) noexcept {
  line(Level::kTrace, f, std::forward<A>(a)...);
}

}  // namespace tbccl::log
