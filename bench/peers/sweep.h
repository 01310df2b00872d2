// The loop that measures every library in the same way: in-place float32 sums of 8 B to 256 MiB.
//
// A figure is the time of a batch of back-to-back calls divided by their number; the median of
// several batches is reported. Rank 0 chooses the length of a batch so that it lasts about
// PEERS_BATCH_MS (30). Every size is verified once before it is measured.
// Environment: PEERS_MIN, PEERS_MAX (bytes), PEERS_FACTOR (4), PEERS_BATCHES (5).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace peers {

struct Library {
  int rank = 0;
  int ranks = 1;
  std::function<void(float*, size_t)> all_reduce;  // in place, sum
  std::function<void()> barrier;
  std::function<void(int*)> broadcast;  // one int, from rank 0
};

inline size_t setting(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Ends the program if an element is wrong: no figure of a library that computes nonsense counts.
inline void verify(const Library& library, float* values, size_t count) {
  const auto base = [](size_t i) { return static_cast<float>(i % 7); };
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(library.rank + 1) + base(i);
  library.all_reduce(values, count);
  const auto n = static_cast<float>(library.ranks);
  for (size_t i = 0; i < count; ++i) {
    const float wanted = n * (n + 1) / 2 + n * base(i);
    if (values[i] == wanted) continue;
    std::fprintf(stderr, "rank %d: element %zu of %zu is %g, should be %g\n", library.rank, i,
                 count, static_cast<double>(values[i]), static_cast<double>(wanted));
    std::exit(1);
  }
  std::fill(values, values + count, 0.0f);  // sums of zeros neither overflow nor become subnormal
}

// Calls that fill a batch, the same number on every rank.
inline int batch_length(const Library& library, float* values, size_t count) {
  const double batch = static_cast<double>(setting("PEERS_BATCH_MS", 30)) * 1e-3;
  const int warmup = count >= (size_t{1} << 21) ? 1 : 5;
  library.barrier();
  const double start = seconds();
  for (int i = 0; i < warmup; ++i) library.all_reduce(values, count);
  const double each = (seconds() - start) / warmup;
  int length = static_cast<int>(std::clamp(batch / each, 1.0, 5000.0));
  library.broadcast(&length);
  return length;
}

inline double median_time(const Library& library, float* values, size_t count) {
  const int length = batch_length(library, values, count);
  std::vector<double> times;
  for (size_t batch = 0; batch < setting("PEERS_BATCHES", 5); ++batch) {
    library.barrier();
    const double start = seconds();
    for (int i = 0; i < length; ++i) library.all_reduce(values, count);
    library.barrier();
    times.push_back((seconds() - start) / length);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Rank 0 prints a line `bytes microseconds` per size.
inline void sweep(const Library& library) {
  const size_t least = setting("PEERS_MIN", 8), most = setting("PEERS_MAX", size_t{256} << 20);
  const size_t factor = std::max<size_t>(setting("PEERS_FACTOR", 4), 2);
  std::vector<size_t> sizes;
  for (size_t bytes = std::max<size_t>(least, sizeof(float)); bytes <= most; bytes *= factor) {
    sizes.push_back(bytes);
  }
  auto* values = static_cast<float*>(std::aligned_alloc(4096, (most + 8191) / 4096 * 4096));
  if (values == nullptr) std::exit(1);
  for (size_t bytes : sizes) {
    const size_t count = bytes / sizeof(float);
    verify(library, values, count);
    const double time = median_time(library, values, count);
    if (library.rank == 0) {
      std::printf("%zu %.3f\n", bytes, time * 1e6);
      std::fflush(stdout);
    }
  }
  std::free(values);
}

}  // namespace peers
