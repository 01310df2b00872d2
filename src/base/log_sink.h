// Where log lines go: the inside of the logger, apart from the one global in log.cpp so that it
// can be tested.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/log.h"

namespace tbccl::log {

// The longest line, with prefix and newline. POSIX promises that a write of up to this many bytes
// (PIPE_BUF on Linux) to a pipe is never mixed with another; longer texts are cut.
inline constexpr size_t kMaxLine = 4096;

// A level by name, whatever its case; -1 for NONE, -2 for no such level.
int parse_level(std::string_view name) noexcept;

// Replaces %h, %p and %% in `pattern`; false if the result, with its terminating zero, does not
// fit into `out`.
bool expand_path(std::string_view pattern, std::string_view host, long pid, char* out,
                 size_t out_bytes) noexcept;

class Sink {
 public:
  // Values of TBCCL_DEBUG and TBCCL_DEBUG_FILE, NULL where not set. What is wrong with them is
  // said on stderr, and the defaults are used.
  Sink(const char* level, const char* file) noexcept;
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  bool enabled(Level level) const noexcept { return static_cast<int>(level) <= level_; }
  // Any thread. Control characters in `text` become spaces: a line stays one line, whoever
  // wrote the text.
  void write(Level level, std::string_view text) const noexcept;

 private:
  void open_file(const char* pattern) noexcept;

  int level_ = static_cast<int>(Level::kWarn);
  int descriptor_ = 2;
  std::array<char, 65> host_{};
};

}  // namespace tbccl::log
