// Monotonic time in nanoseconds since an arbitrary start; the only clock of the library.
#pragma once

#include <chrono>
#include <cstdint>

namespace tbccl {

inline constexpr uint64_t kNever = UINT64_MAX;

inline uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace tbccl
