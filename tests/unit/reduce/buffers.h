// What tests of kernels are made of: vectors of elements between guards, awkward values, and all
// pairs on all instruction sets.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "reduce/reduce.h"
#include "unit/catch.h"
#include "unit/reduce/reference.h"

namespace buffers {

using namespace tbccl;
using reference::Element;

inline constexpr unsigned char kGuard = 0xa5;
inline constexpr size_t kGuardBytes = 32;

// A vector of elements as bytes, at a chosen misalignment and between guards.
class Buffer {
 public:
  Buffer(const std::vector<Element>& values, size_t misalignment)
      : Buffer(flatten(values), misalignment) {}
  Buffer(const std::vector<unsigned char>& bytes, size_t misalignment)
      : misalignment_(misalignment),
        size_(bytes.size()),
        storage_(kAlignment + misalignment + size_ + 2 * kGuardBytes, kGuard) {
    if (size_ > 0) std::memcpy(data(), bytes.data(), size_);
  }
  unsigned char* data() {
    const auto first = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
    const size_t gap = (kAlignment - first % kAlignment) % kAlignment;
    return storage_.data() + kGuardBytes + gap + misalignment_;
  }
  bool equals(const unsigned char* expected, size_t bytes) {
    return bytes == 0 || std::memcmp(data(), expected, bytes) == 0;
  }
  bool guarded() {
    for (const unsigned char* p = storage_.data(); p < data(); ++p) {
      if (*p != kGuard) return false;
    }
    for (const unsigned char* p = data() + size_; p < storage_.data() + storage_.size(); ++p) {
      if (*p != kGuard) return false;
    }
    return true;
  }
  static std::vector<unsigned char> flatten(const std::vector<Element>& values) {
    std::vector<unsigned char> bytes;
    for (const Element& value : values) bytes.insert(bytes.end(), value.begin(), value.end());
    return bytes;
  }

 private:
  static constexpr size_t kAlignment = 64;
  size_t misalignment_;
  size_t size_;
  std::vector<unsigned char> storage_;
};

// Half awkward values, half random bits.
inline std::vector<Element> mixture(tbcclDataType_t type, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<Element> awkward = reference::awkward(type);
  std::vector<Element> values;
  for (size_t i = 0; i < count; ++i) {
    Element value = awkward[random() % awkward.size()];
    if (random() % 2 == 0) {
      for (unsigned char& byte : value) byte = static_cast<unsigned char>(random());
    }
    values.push_back(value);
  }
  return values;
}

inline std::vector<unsigned char> expected_fold(const reduce::Reduction& r,
                                                const std::vector<std::vector<Element>>& sources,
                                                bool finish) {
  std::vector<Element> results;
  for (size_t i = 0; i < sources[0].size(); ++i) {
    std::vector<Element> column;
    for (const auto& source : sources) column.push_back(source[i]);
    results.push_back(reference::fold(r.type, r.op, column, finish ? r.ranks : 1));
  }
  return Buffer::flatten(results);
}

template <class F>
void for_each_pair_here(const char* target, F f) {
  for (const tbcclDataType_t type : reference::kTypes) {
    for (const tbcclRedOp_t op : reference::kOps) {
      if (!reference::legal(type, op)) continue;
      reduce::Reduction r;
      r.type = type;
      r.op = op;
      r.ranks = 3;
      INFO(reduce::name_of(type) << " " << reduce::name_of(op) << " on " << target);
      f(r);
    }
  }
}

// While it lives, kernels are those of this instruction set.
class OnTarget {
 public:
  explicit OnTarget(const char* name) { REQUIRE(reduce::use_target(name)); }
  ~OnTarget() { reduce::use_target(nullptr); }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;
};

// Every legal pair, on every instruction set: they have the same bits when each has the
// reference's.
template <class F>
void for_each_pair(F f) {
  for (const char* const target : reduce::targets()) {
    const OnTarget on(target);
    for_each_pair_here(target, f);
  }
}

}  // namespace buffers
