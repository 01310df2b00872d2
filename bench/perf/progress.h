// A progress bar for long sweeps, on stderr where that is a terminal; nothing elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tbccl::perf {

class Progress {
 public:
  // `enabled`: this process reports (rank 0).
  Progress(bool enabled, size_t total);
  ~Progress() { clear(); }

  void show(size_t done, std::string_view doing);
  // Takes the bar off the screen before something else is printed.
  void clear();

 private:
  bool enabled_;
  size_t total_;
  uint64_t started_;
  bool shown_ = false;
};

}  // namespace tbccl::perf
