// What lies on a board: only board.cpp and board_work.cpp know.
#pragma once

#include "engine/board.h"

namespace tbccl::engine {

inline constexpr uint64_t kBoardSlice = 64 * 1024;  // of work between two looks at anything else

// Small payloads share the header's cache line.
struct alignas(64) Board::Cell {
  static constexpr uint64_t kInline = 32;
  std::atomic<uint64_t> turn;
  uint64_t fingerprint;
  uint32_t flags;
  uint32_t unused[3];
  std::byte data[kInline];
  std::byte area[kBoardArea];

  const std::byte* payload(uint64_t bytes) const { return bytes <= kInline ? data : area; }
  std::byte* payload(uint64_t bytes) { return bytes <= kInline ? data : area; }
};

struct Board::Words {
  alignas(64) std::atomic<uint64_t> read;
  alignas(64) std::atomic<uint32_t> closed;
  uint64_t process[2];         // which one this rank is in
  std::atomic<uint32_t> comm;  // the communicator that this rank uses the set for; 0: none
  alignas(64) std::atomic<uint32_t> reading;
};

}  // namespace tbccl::engine
