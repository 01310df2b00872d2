// Timers of the control thread, in the library's clock.
#pragma once

#include <algorithm>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>

#include "base/clock.h"

namespace tbccl::bootstrap {

inline constexpr uint64_t kMillisecond = 1'000'000;
inline constexpr uint64_t kSecond = 1'000'000'000;

// Runs `f` at `when_ns` unless the timer is set again, cancelled or destroyed before. kNever:
// never.
inline void set_timer(asio::steady_timer& timer, uint64_t when_ns, std::function<void()> f) {
  timer.cancel();
  if (when_ns >= static_cast<uint64_t>(INT64_MAX)) return;
  timer.expires_at(std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::nanoseconds(when_ns))));
  timer.async_wait([f = std::move(f)](std::error_code error) {
    if (!error) f();
  });
}

inline uint64_t after(uint64_t ns) {
  const uint64_t now = now_ns();
  return ns >= kNever - now ? kNever : now + ns;
}

}  // namespace tbccl::bootstrap
