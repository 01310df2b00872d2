#include "shm/allocations.h"

#include <cstddef>
#include <utility>

#include "base/formatted.h"

namespace tbccl::shm {

bool Allocations::add(uint64_t id, uint64_t bytes, Descriptor descriptor) {
  if (all_.size() >= kMaxAllocations || knows(id)) return false;
  all_.push_back({id, bytes, std::move(descriptor), nullptr});
  return true;
}

size_t Allocations::position_of(uint64_t id) const {
  if (last_ < all_.size() && all_[last_].id == id) return last_;
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].id == id) return last_ = i;
  }
  return all_.size();
}

const void* Allocations::reach(uint64_t id, uint64_t offset, uint64_t bytes, Status* why) {
  const size_t position = position_of(id);
  if (position == all_.size()) {
    *why = {tbcclRemoteError,
            formatted("the peer names an allocation ({}) that it never announced", id)};
    return nullptr;
  }
  Allocation& allocation = all_[position];
  if (offset > allocation.bytes || bytes > allocation.bytes - offset) {
    *why = {tbcclRemoteError, formatted("the peer names bytes {} to {} of an allocation of {}",
                                        offset, offset + bytes, allocation.bytes)};
    return nullptr;
  }
  if (allocation.region == nullptr) {
    *why = SharedRegion::attach(allocation.descriptor, allocation.bytes, &allocation.region);
    if (!why->ok()) return nullptr;
    allocation.descriptor.reset();
  }
  return allocation.region->data() + offset;
}

bool Allocations::forget(uint64_t id) {
  const size_t position = position_of(id);
  if (position == all_.size()) return false;
  all_.erase(all_.begin() + static_cast<ptrdiff_t>(position));
  return true;
}

void Allocations::abandon() {
  for (auto& allocation : all_) allocation.descriptor.release();
}

}  // namespace tbccl::shm
