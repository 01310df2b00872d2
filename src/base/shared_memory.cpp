#include "base/shared_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/formatted.h"

#ifdef __APPLE__
#include <sys/random.h>
#endif

namespace tbccl {
namespace {

struct Allocation {
  const std::byte* begin;
  size_t bytes;
  std::shared_ptr<SharedRegion> region;
};

// What all threads of the process share. Locked across fork(), so that a child finds it whole.
struct Registry {
  std::mutex mutex;
  uint64_t next_id = 1;
  std::vector<std::pair<uint64_t, std::weak_ptr<SharedRegion>>> regions;  // by id
  std::vector<Allocation> allocations;                                    // by address
  // Everything allocated lies between these two.
  std::atomic<uintptr_t> lowest{UINTPTR_MAX};
  std::atomic<uintptr_t> highest{0};
  std::atomic<uint64_t> frees{0};
  bool has_token = false;
  ProcessToken token{};
};

// Never destroyed: programs may free memory while they exit.
Registry& registry() {
  static Registry* const only = [] {
    auto* made = new Registry;
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   [] {
                     registry().has_token = false;
                     registry().mutex.unlock();
                   });
    return made;
  }();
  return *only;
}

auto position_of(Registry& all, uintptr_t address) {
  // The last allocation that begins at or below the address is before this one.
  return std::upper_bound(all.allocations.begin(), all.allocations.end(), address,
                          [](uintptr_t wanted, const Allocation& allocation) {
                            return wanted < reinterpret_cast<uintptr_t>(allocation.begin);
                          });
}

void update_bounds(Registry& all) {
  const bool none = all.allocations.empty();
  const auto address = [](const std::byte* at) { return reinterpret_cast<uintptr_t>(at); };
  all.lowest = none ? UINTPTR_MAX : address(all.allocations.front().begin);
  all.highest = none ? 0 : address(all.allocations.back().begin) + all.allocations.back().bytes;
}

Status refused(const char* what, size_t bytes, int reason) {
  const char* remedy = "";
  if (reason == EMFILE || reason == ENFILE) {
    remedy = "; raise the limit of open files (ulimit -n)";
  } else if (reason == ENOMEM || reason == ENOSPC) {
    remedy = "; free memory, or raise the limit of the container or of address space (ulimit -v)";
  } else if (reason == EPERM || reason == ENOSYS || reason == EACCES) {
    remedy = "; a sandbox or container forbids it: allow it, or set TBCCL_TRANSPORT=tcp";
  } else if (reason == EFBIG) {
    remedy = "; raise the limit of file sizes (ulimit -f)";
  }
  return {tbcclSystemError, formatted("no shared memory of {} bytes: {} failed: {}{}", bytes, what,
                                      std::strerror(reason), remedy)};
}

#ifdef __linux__

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

// What writes (descriptor for the mapping) and what is handed out may be two descriptors.
struct Opened {
  Descriptor write;
  const char* failed = nullptr;
};

Opened open_anonymous() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Opened opened;
  opened.write = Descriptor(memfd_create("tbccl", kFlags | MFD_NOEXEC_SEAL));
  if (!opened.write.open() && errno == EINVAL) {  // before Linux 6.3
    opened.write = Descriptor(memfd_create("tbccl", kFlags));
  }
  opened.failed = "memfd_create";
  return opened;
}

// After the only writable mapping has been made.
Descriptor seal(Opened opened) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  // Linux before 5.1 cannot forbid further writers; being of one user they are trusted that far.
  if (fcntl(opened.write.get(), F_ADD_SEALS, kSeals | F_SEAL_FUTURE_WRITE) != 0 &&
      fcntl(opened.write.get(), F_ADD_SEALS, kSeals) != 0) {
    return {};
  }
  return std::move(opened.write);
}

bool cannot_shrink(int descriptor) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

#else

struct Opened {
  Descriptor write;
  Descriptor read;
  const char* failed = nullptr;
};

// There is no memory without a name here, so it has one for the time of three system calls.
Opened open_anonymous() {
  Opened opened;
  for (int attempt = 0; attempt < 8; ++attempt) {
    uint64_t random = 0;
    random_bytes(&random, sizeof random);
    char name[32];
    std::snprintf(name, sizeof name, "/tbccl%016llx", static_cast<unsigned long long>(random));
    opened.failed = "shm_open";
    opened.write = Descriptor(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    if (!opened.write.open()) {
      if (errno == EEXIST) continue;
      return opened;
    }
    opened.read = Descriptor(shm_open(name, O_RDONLY, 0));
    const int reason = errno;
    shm_unlink(name);
    fcntl(opened.write.get(), F_SETFD, FD_CLOEXEC);
    if (opened.read.open()) {
      fcntl(opened.read.get(), F_SETFD, FD_CLOEXEC);
    } else {
      opened.write.reset();
      errno = reason;
    }
    return opened;
  }
  return opened;
}

Descriptor seal(Opened opened) { return std::move(opened.read); }

// The size of a shared memory object can only be set once on macOS.
bool cannot_shrink(int) { return true; }

#endif

}  // namespace

void random_bytes(void* to, size_t bytes) {
  // Fails only for more than 256 bytes or on kernels older than any that has memfd_create.
  if (getentropy(to, bytes) == 0) return;
  Descriptor source(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = ::read(source.get(), static_cast<char*>(to) + done, bytes - done);
    if (got <= 0) return;
    done += static_cast<size_t>(got);
  }
}

Status SharedRegion::create(size_t wanted, std::shared_ptr<SharedRegion>* region) {
  const size_t bytes = (wanted + kSharedPage - 1) / kSharedPage * kSharedPage;
  if (bytes < wanted || bytes > SIZE_MAX / 2) return refused("mmap", wanted, ENOMEM);
  // Beyond this limit the system does not refuse but sends a signal.
  rlimit files = {};
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && bytes > files.rlim_cur) {
    return refused("the limit of file sizes (ulimit -f)", bytes, EFBIG);
  }
  Opened opened = open_anonymous();
  if (!opened.write.open()) return refused(opened.failed, bytes, errno);
  if (ftruncate(opened.write.get(), static_cast<off_t>(bytes)) != 0) {
    return refused("ftruncate", bytes, errno);
  }
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened.write.get(), 0);
  if (data == MAP_FAILED) return refused("mmap", bytes, errno);
  std::shared_ptr<SharedRegion> made(new SharedRegion);
  made->data_ = static_cast<std::byte*>(data);
  made->bytes_ = bytes;
  made->process_ = getpid();
  made->descriptor_ = seal(std::move(opened));
  if (!made->descriptor_.open()) return refused("sealing", bytes, errno);
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  made->id_ = all.next_id++;
  all.regions.emplace_back(made->id_, made);
  *region = std::move(made);
  return {};
}

Status SharedRegion::attach(const Descriptor& descriptor, size_t bytes,
                            std::shared_ptr<const SharedRegion>* region) {
  struct stat about {};
  if (fstat(descriptor.get(), &about) != 0) return refused("fstat", bytes, errno);
  if (about.st_size < 0 || static_cast<uint64_t>(about.st_size) < bytes) {
    return {tbcclRemoteError, formatted("a peer's shared memory has {} bytes instead of {}: check "
                                        "that all ranks run the same version of the library",
                                        about.st_size, bytes)};
  }
  if (!cannot_shrink(descriptor.get())) {
    return {tbcclRemoteError,
            "a peer's shared memory is not sealed against shrinking: check that all ranks run the "
            "same version of the library"};
  }
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return refused("mmap of a peer's memory", bytes, errno);
  std::shared_ptr<SharedRegion> made(new SharedRegion);
  made->data_ = static_cast<std::byte*>(data);
  made->bytes_ = bytes;
  made->process_ = getpid();
  *region = std::move(made);
  return {};
}

std::shared_ptr<const SharedRegion> SharedRegion::find(uint64_t id) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& [other, region] : all.regions) {
    if (other == id) return region.lock();
  }
  return nullptr;
}

SharedRegion::~SharedRegion() {
  if (getpid() != process_) descriptor_.release();  // the number may be another file's by now
  if (data_ != nullptr) munmap(data_, bytes_);
  if (id_ == 0) return;
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.regions, [this](const auto& entry) { return entry.first == id_; });
}

ProcessToken process_token() {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.has_token) {
    random_bytes(all.token.data(), all.token.size());
    all.has_token = true;
  }
  return all.token;
}

Status allocate_shared(size_t bytes, void** memory) {
  if (memory == nullptr || bytes == 0) {
    return {tbcclInvalidArgument, "shared memory needs a size above 0 and a place for its address"};
  }
  std::shared_ptr<SharedRegion> region;
  if (Status status = SharedRegion::create(bytes, &region); !status.ok()) return status;
#ifdef MADV_HUGEPAGE
  // Heeded where the system is set to it (transparent_hugepage/shmem_enabled).
  constexpr size_t kHugePage = 2u << 20;
  if (region->bytes() >= kHugePage) madvise(region->data(), region->bytes(), MADV_HUGEPAGE);
#endif
  *memory = region->data();
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Allocation made{region->data(), region->bytes(), region};
  all.allocations.insert(position_of(all, reinterpret_cast<uintptr_t>(made.begin)), made);
  update_bounds(all);
  return {};
}

Status free_shared(void* memory) {
  std::shared_ptr<SharedRegion> last;  // unmapped when the lock is free again
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  auto at = position_of(all, reinterpret_cast<uintptr_t>(memory));
  if (at == all.allocations.begin() || (--at)->begin != memory) {
    return {tbcclInvalidArgument,
            formatted("{} is not the beginning of shared memory that was allocated and not yet "
                      "freed",
                      memory)};
  }
  last = std::move(at->region);
  all.allocations.erase(at);
  update_bounds(all);
  ++all.frees;
  return {};
}

bool find_shared(const void* memory, size_t bytes, SharedAllocation* found) {
  Registry& all = registry();
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (address < all.lowest.load(std::memory_order_acquire) ||
      address >= all.highest.load(std::memory_order_acquire)) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  auto at = position_of(all, address);
  if (at == all.allocations.begin()) return false;
  --at;
  const uint64_t offset = address - reinterpret_cast<uintptr_t>(at->begin);
  if (offset >= at->bytes || bytes > at->bytes - offset) return false;
  *found = {at->region->id(), offset, at->bytes};
  return true;
}

bool exists_shared(uint64_t id) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return std::any_of(all.allocations.begin(), all.allocations.end(),
                     [id](const Allocation& allocation) { return allocation.region->id() == id; });
}

uint64_t shared_frees() { return registry().frees.load(std::memory_order_acquire); }

Descriptor duplicate_shared(uint64_t id) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  errno = 0;
  for (const Allocation& allocation : all.allocations) {
    if (allocation.region->id() != id) continue;
    return Descriptor(fcntl(allocation.region->descriptor().get(), F_DUPFD_CLOEXEC, 0));
  }
  return {};
}

}  // namespace tbccl
