#include "progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/formatted.h"

namespace tbccl::perf {
namespace {

constexpr size_t kWidth = 30;
constexpr uint64_t kQuiet = 1'000'000'000;  // shorter sweeps need no bar

}  // namespace

Progress::Progress(bool enabled, size_t total)
    : enabled_(enabled && isatty(STDERR_FILENO) != 0), total_(total), started_(now_ns()) {}

void Progress::show(size_t done, std::string_view doing) {
  const uint64_t elapsed = now_ns() - started_;
  if (!enabled_ || total_ == 0 || elapsed < kQuiet) return;
  const size_t filled = std::min(kWidth, kWidth * done / total_);
  std::string left;
  if (done > 0) {
    const auto seconds = static_cast<double>(elapsed) * 1e-9 * static_cast<double>(total_ - done) /
                         static_cast<double>(done);
    left = formatted(", {:.0f} s left", seconds);
  }
  fmt::print(stderr, "\r\x1b[K[{}{}] {}/{}{}  {}", std::string(filled, '#'),
             std::string(kWidth - filled, '.'), done, total_, left, doing);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace tbccl::perf
