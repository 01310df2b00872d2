// Cablings and hosts written on one line, for clusters that need not exist:
//
//   ring:8  chain:4  mesh:4  star:5  torus:4x4  torus:2x4x8    ranks joined by cables
//   two-level:4x8                                              hosts x ranks, hosts on a network
//   network:64                                                 ranks of their own on a network
//   host:8                                                     ranks of one host
//
// then, separated by commas: rate=5GB/s (of a cable, or of the network), alpha=25us (likewise),
// k=2 (cables where there is one), missing=0-1 (takes one cable away), extra=0-2 (adds one),
// cores=8 (of a host).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tbccl::topology {

struct Sketch {
  int ranks = 1;
  std::vector<int> host;  // number of each rank's
  struct Join {
    int a = 0, b = 0;
    bool operator==(const Join&) const = default;
  };
  std::vector<Join> cables;
  double rate = 0;       // bytes per nanosecond; 0: not given
  double alpha_ns = -1;  // negative: not given
  int cores = 0;         // 0: as many as a host has ranks
};

inline constexpr int kMostSketchedRanks = 4096;
inline constexpr size_t kMostSketchedCables = size_t{1} << 20;

// InvalidArgument says what is wrong and what would be right.
Status parse_sketch(const std::string& text, Sketch* sketch);

// "25us", "1.5ms", "300ns" into nanoseconds.
bool parse_time(const std::string& text, double* ns);

}  // namespace tbccl::topology
