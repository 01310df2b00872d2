#include "result.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace tbccl::perf {
namespace {

// The smallest value that at least `percent` of the values do not exceed.
double percentile(std::span<const double> sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  const size_t index = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

}  // namespace

void summarize(Iterations* iterations) {
  const auto skipped = std::min(static_cast<size_t>(iterations->skipped), iterations->times.size());
  std::vector<double> sorted(iterations->times.begin() + static_cast<std::ptrdiff_t>(skipped),
                             iterations->times.end());
  if (sorted.empty()) return;
  std::sort(sorted.begin(), sorted.end());
  double sum = 0, squares = 0;
  for (double time : sorted) sum += time;
  const double mean = sum / static_cast<double>(sorted.size());
  for (double time : sorted) squares += (time - mean) * (time - mean);
  iterations->least = sorted.front();
  iterations->most = sorted.back();
  iterations->average = mean;
  iterations->deviation = std::sqrt(squares / static_cast<double>(sorted.size()));
  iterations->p50 = percentile(sorted, 50);
  iterations->p95 = percentile(sorted, 95);
  iterations->p99 = percentile(sorted, 99);
}

}  // namespace tbccl::perf
