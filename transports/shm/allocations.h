// The peer's shared allocations, as this end knows them: announced with a descriptor, mapped for
// reading when first referred to, kept until the owner has freed them, or the context is closed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/shared_memory.h"
#include "base/status.h"

namespace tbccl::shm {

// An end announces no more than this over one trunk, and copies what lies in others.
inline constexpr size_t kMaxAllocations = 256;

class Allocations {
 public:
  // False: one too many, or announced twice.
  bool add(uint64_t id, uint64_t bytes, Descriptor descriptor);
  bool knows(uint64_t id) const { return position_of(id) < all_.size(); }
  // [offset, offset + bytes) of an allocation. NULL: *why.
  const void* reach(uint64_t id, uint64_t offset, uint64_t bytes, Status* why);
  // The owner has freed it, and no frame refers to it any more. False: it is not known.
  bool forget(uint64_t id);
  // In a forked child: the numbers may be other files' by now.
  void abandon();

 private:
  struct Allocation {
    uint64_t id;
    uint64_t bytes;
    Descriptor descriptor;  // until it is mapped
    std::shared_ptr<const SharedRegion> region;
  };
  size_t position_of(uint64_t id) const;

  std::vector<Allocation> all_;
  mutable size_t last_ = 0;  // where the last one asked for was found
};

}  // namespace tbccl::shm
