#include "buffers.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/formatted.h"
#include "tbccl/tbccl.h"

namespace tbccl::perf {
namespace {

constexpr size_t kMargin = 4096;  // keeps the data on a page boundary; at least kGuardBytes

// Differs from byte to byte, so that a shifted copy of it is seen as well.
std::byte canary(const std::byte* at) {
  return static_cast<std::byte>(0xa5 ^ (reinterpret_cast<uintptr_t>(at) * 151 >> 3));
}

size_t changed(const std::byte* at, size_t bytes) {
  size_t count = 0;
  for (size_t i = 0; i < bytes; ++i) count += at[i] != canary(at + i) ? 1 : 0;
  return count;
}

}  // namespace

Buffer::~Buffer() {
  if (base_ == nullptr) return;
  if (registered_) {
    (void)tbcclMemFree(base_);
  } else {
    munmap(base_, mapped_);
  }
}

Status Buffer::allocate(size_t bytes, size_t skew, bool registered) {
  mapped_ = (2 * kMargin + bytes + skew + kMargin - 1) / kMargin * kMargin;
  registered_ = registered;
  if (registered) {
    void* shared = nullptr;
    if (tbcclMemAlloc(&shared, mapped_) != tbcclSuccess) {
      return {tbcclSystemError, tbcclGetLastError(nullptr)};
    }
    base_ = static_cast<std::byte*>(shared);
    data_ = base_ + kMargin + skew;
    return {};
  }
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (memory == MAP_FAILED) {
    mapped_ = 0;
    return {tbcclSystemError, formatted("no memory for a buffer of {} bytes ({}); use a smaller -e",
                                        bytes, std::strerror(errno))};
  }
  base_ = static_cast<std::byte*>(memory);
  data_ = base_ + kMargin + skew;
  return {};
}

void Buffer::set_guards(size_t offset, size_t bytes) const {
  set_canary(at(offset) - kGuardBytes, kGuardBytes);
  set_canary(at(offset) + bytes, kGuardBytes);
}

size_t Buffer::changed_guard_bytes(size_t offset, size_t bytes) const {
  return changed(at(offset) - kGuardBytes, kGuardBytes) + changed(at(offset) + bytes, kGuardBytes);
}

void set_canary(std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) at[i] = canary(at + i);
}

uint64_t checksum(const std::byte* at, size_t bytes) {
  constexpr uint64_t kPrime = 0x9fb21c651e98df25u;
  uint64_t lanes[4] = {1, 2, 3, 4};
  size_t done = 0;
  for (; done + sizeof(lanes) <= bytes; done += sizeof(lanes)) {
    uint64_t words[4];
    std::memcpy(words, at + done, sizeof(words));
    for (int i = 0; i < 4; ++i) {
      lanes[i] = (lanes[i] ^ words[i]) * kPrime;
      lanes[i] ^= lanes[i] >> 29;
    }
  }
  uint64_t sum = bytes;
  for (; done < bytes; ++done) sum = (sum ^ static_cast<uint64_t>(at[done])) * kPrime;
  for (uint64_t lane : lanes) sum = ((sum ^ (sum >> 31)) + lane) * kPrime;
  return sum;
}

}  // namespace tbccl::perf
