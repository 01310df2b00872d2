// One call made by one rank: its memory, the call itself, and whether the result is right.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "call.h"

namespace soak {

// Memory between guards, ordinary or the library's.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // All of it holds what unwritten memory holds. `skew`: bytes past an aligned address.
  void allocate(size_t bytes, size_t skew, bool shared);
  void reset();
  std::byte* data() const { return begin_ + kGuard; }
  const std::byte* whole() const { return begin_; }
  size_t whole_bytes() const { return bytes_ + 2 * kGuard; }

  static constexpr size_t kGuard = 64;

 private:
  std::vector<std::byte> ordinary_;
  void* shared_ = nullptr;
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

class Exercise {
 public:
  Exercise(const Call& call, tbcclComm_t comm, int rank, Role role);
  ~Exercise();
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;

  // Makes the operator and the memory; "" or what went wrong.
  std::string prepare();
  // New data, for a persistent request that is not in progress.
  void renew(uint64_t seed);
  // The operator, which a call that has returned needs no more.
  void drop_operator();

  // As it is to be submitted; flag, callback and the like are the caller's to set.
  tbcclCall_t submission();
  // Of a receive from anybody: who it came from, before check().
  void came_from(int rank) { source_ = rank; }
  // "" if every byte of the memory is what it must be.
  std::string check() const;

  const Call& call() const { return call_; }
  Role role() const { return role_; }
  std::string text() const;

 private:
  void fill_memory();
  std::vector<std::byte> expected(const Memory& memory, const std::vector<std::byte>& before,
                                  const std::vector<Block>& blocks, uint64_t at) const;

  Call call_;
  tbcclComm_t comm_;
  int rank_;
  Role role_;
  Layout layout_;
  int source_ = -1;
  tbcclRedOp_t op_ = tbcclSum;
  bool made_operator_ = false;
  Memory send_, recv_;  // in place: recv_ alone
  std::vector<std::byte> send_before_, recv_before_;
};

}  // namespace soak
