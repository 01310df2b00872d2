// What a reference says: memory of one end by which the other may read it.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/shared_memory.h"
#include "tbccl/transport.h"

namespace tbccl::shm {

struct Reference {
  enum class Kind : uint32_t { kAllocation = 1, kOwnMemory = 2 };

  Kind kind;
  uint32_t zero;
  uint64_t allocation;  // kAllocation: its id; kOwnMemory: half of the process token
  uint64_t offset;      // kAllocation: in the allocation; kOwnMemory: the address
  uint64_t bytes;
};
static_assert(sizeof(Reference) == TBCCL_REFERENCE_BYTES);

inline tbcclReference_t pack(const Reference& reference) {
  tbcclReference_t packed;
  std::memcpy(&packed, &reference, sizeof packed);
  return packed;
}
inline Reference unpack(const tbcclReference_t& packed) {
  Reference reference;
  std::memcpy(&reference, &packed, sizeof reference);
  return reference;
}

inline uint64_t half_of(const ProcessToken& token) {
  uint64_t half = 0;
  std::memcpy(&half, token.data(), sizeof half);
  return half;
}

}  // namespace tbccl::shm
