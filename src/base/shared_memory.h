// Memory that several processes of one host read and one writes. It has no name anywhere in the
// file system, so nothing is left behind by whatever death.
//
// Whoever makes a region writes it; who attaches to it can only read it. On Linux the kernel holds
// both sides to that: the region cannot shrink under a reader, and cannot be mapped for writing a
// second time (seals).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/descriptor.h"
#include "base/status.h"

namespace tbccl {

// Sizes and parts of regions are multiples of this: the largest page of any supported machine.
inline constexpr size_t kSharedPage = 16384;

class SharedRegion {
 public:
  // New memory, all zero; pages that are never touched cost nothing. SystemError says what was
  // refused and what to do.
  static Status create(size_t bytes, std::shared_ptr<SharedRegion>* region);
  // Maps somebody else's region for reading. RemoteError if it is smaller than `bytes` or, on
  // Linux, could be made so. The descriptor may be closed afterwards.
  static Status attach(const Descriptor& descriptor, size_t bytes,
                       std::shared_ptr<const SharedRegion>* region);
  // The region of this process with that id, made by create(); NULL if there is none.
  static std::shared_ptr<const SharedRegion> find(uint64_t id);

  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  uint64_t id() const { return id_; }  // 0 for attached ones
  // What others attach to; not open after close_descriptor() and for attached regions.
  const Descriptor& descriptor() const { return descriptor_; }
  void close_descriptor() { descriptor_.reset(); }

 private:
  SharedRegion() = default;

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t id_ = 0;
  int process_ = 0;
  Descriptor descriptor_;
};

// 128 random bits that tell this process from all others, a forked child included. Any thread.
using ProcessToken = std::array<uint8_t, 16>;
ProcessToken process_token();

// Fills the array with random bits of the system.
void random_bytes(void* to, size_t bytes);  // at most 256

// --- memory that user programs allocate so that other ranks can read it; any thread ---

// Page-aligned, zero. InvalidArgument for 0 bytes or NULL; SystemError as SharedRegion::create.
Status allocate_shared(size_t bytes, void** memory);
// InvalidArgument for what allocate_shared has not given, or was freed already. Other processes
// that read the memory keep it; readers in this process must be done with it.
Status free_shared(void* memory);

struct SharedAllocation {
  uint64_t id;      // of its region; never used again
  uint64_t offset;  // of what was asked for
  uint64_t bytes;   // of the whole allocation
};
// True if [memory, memory + bytes) lies in one allocation. Costs one comparison for memory outside
// of all of them, and an uncontended lock otherwise.
bool find_shared(const void* memory, size_t bytes, SharedAllocation* found);
// A new descriptor of an allocation, for another process to attach to; not open if it has been
// freed (errno 0) or descriptors have run out (errno).
Descriptor duplicate_shared(uint64_t id);
bool exists_shared(uint64_t id);
// Grows with every free_shared(): whoever keeps ids looks through them when it has.
uint64_t shared_frees();

}  // namespace tbccl
