// Pseudo-random draws that are the same on every machine, so that a seed says what a run does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "perf/verify_random.h"

namespace soak {

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}

  uint64_t word() { return tbccl::perf::mix(state_++); }
  // 0 to bound - 1.
  uint64_t below(uint64_t bound) { return tbccl::perf::below(word(), bound); }
  int number(int bound) { return static_cast<int>(below(static_cast<uint64_t>(bound))); }
  bool chance(uint64_t percent) { return below(100) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  uint64_t state_;
};

// A seed for something named by two numbers, within another seed.
inline uint64_t derived(uint64_t seed, uint64_t a, uint64_t b = 0) {
  return tbccl::perf::mix(tbccl::perf::mix(seed ^ (a << 32)) + b);
}

}  // namespace soak
