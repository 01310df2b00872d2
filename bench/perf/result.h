// One line of the table, as figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tbccl::perf {

// Figures of single iterations, in microseconds, combined over the ranks.
struct Iterations {
  int skipped = 0;
  std::vector<double> times;
  double least = 0, most = 0, average = 0, p50 = 0, p95 = 0, p99 = 0, deviation = 0;
};

// Fills in the figures from the times after the first `skipped`.
void summarize(Iterations* iterations);

struct Measurement {
  bool present = false;  // sendrecv has no in-place form
  double time_us = 0;    // of one operation; processor time with -C
  double algbw = 0;      // GB/s, GB = 1e9 bytes
  double busbw = 0;
  bool checked = false;
  uint64_t wrong = 0;  // elements, summed over ranks
  Iterations iterations;
};

struct Row {
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string type, redop;
  int root = -1;
  std::string timestamp;  // with -S
  Measurement out_of_place, in_place;
};

struct Summary {
  uint64_t wrong = 0;
  double average_busbw = 0;
};

}  // namespace tbccl::perf
