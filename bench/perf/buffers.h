// Memory for a sweep, with room on both sides of every place that is ever used, so that writes
// outside a receive buffer are found.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tbccl::perf {

inline constexpr size_t kGuardBytes = 256;

class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // `skew` moves the beginning off its page boundary. `registered`: from tbcclMemAlloc.
  Status allocate(size_t bytes, size_t skew, bool registered);
  std::byte* at(size_t offset) const { return data_ + offset; }

  // Marks the guards around [offset, offset + bytes), which may lie in other uses' places.
  void set_guards(size_t offset, size_t bytes) const;
  // Bytes of these guards that have changed since.
  size_t changed_guard_bytes(size_t offset, size_t bytes) const;

 private:
  std::byte* base_ = nullptr;
  size_t mapped_ = 0;
  bool registered_ = false;
  std::byte* data_ = nullptr;
};

// What a receive buffer holds before a verified call, and what guards hold.
void set_canary(std::byte* at, size_t bytes);

// A hash of memory that depends on every bit and its place; to see that nothing was written.
uint64_t checksum(const std::byte* at, size_t bytes);

}  // namespace tbccl::perf
