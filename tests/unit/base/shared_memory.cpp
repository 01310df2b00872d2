#include "base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "unit/catch.h"

using namespace tbccl;

namespace {

bool is_zero(const std::byte* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (data[i] != std::byte{0}) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a region is zero, written by its maker and read by who attaches", "[shared_memory]") {
  std::shared_ptr<SharedRegion> region;
  REQUIRE(SharedRegion::create(100, &region).ok());
  REQUIRE(region->bytes() == kSharedPage);
  REQUIRE(is_zero(region->data(), region->bytes()));
  std::shared_ptr<const SharedRegion> attached;
  REQUIRE(SharedRegion::attach(region->descriptor(), region->bytes(), &attached).ok());
  REQUIRE(attached->id() == 0);
  region->data()[7] = std::byte{42};
  REQUIRE(attached->data()[7] == std::byte{42});
  // It lives as long as somebody maps it.
  region.reset();
  REQUIRE(attached->data()[7] == std::byte{42});
}

TEST_CASE("a region is found by its id while it lives", "[shared_memory]") {
  std::shared_ptr<SharedRegion> one, two;
  REQUIRE(SharedRegion::create(1, &one).ok());
  REQUIRE(SharedRegion::create(1, &two).ok());
  REQUIRE(one->id() != two->id());
  REQUIRE(SharedRegion::find(one->id()) == one);
  REQUIRE(SharedRegion::find(two->id()) == two);
  const uint64_t id = one->id();
  one.reset();
  REQUIRE(SharedRegion::find(id) == nullptr);
  REQUIRE(SharedRegion::find(0) == nullptr);
}

TEST_CASE("who attaches needs as much as was said", "[shared_memory]") {
  std::shared_ptr<SharedRegion> region;
  REQUIRE(SharedRegion::create(1, &region).ok());
  std::shared_ptr<const SharedRegion> attached;
  const Status small = SharedRegion::attach(region->descriptor(), kSharedPage + 1, &attached);
  REQUIRE(small.code() == tbcclRemoteError);
  REQUIRE(small.text().find("16384 bytes instead of 16385") != std::string::npos);
  REQUIRE_FALSE(SharedRegion::attach(Descriptor(), 1, &attached).ok());
  REQUIRE(attached == nullptr);
}

TEST_CASE("sizes beyond all memory are refused in words", "[shared_memory]") {
  std::shared_ptr<SharedRegion> region;
  const Status status =
      SharedRegion::create(GENERATE(as<size_t>{}, SIZE_MAX, SIZE_MAX / 2), &region);
  REQUIRE(status.code() == tbcclSystemError);
  REQUIRE(status.text().find("no shared memory of") != std::string::npos);
  REQUIRE(region == nullptr);
}

TEST_CASE("running out of descriptors says what to do", "[shared_memory]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::shared_ptr<SharedRegion> region;
  const Status status = SharedRegion::create(1, &region);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(status.text().find("ulimit -n") != std::string::npos);
}

#ifdef __linux__

TEST_CASE("nobody else can write a region, or shrink it", "[shared_memory]") {
  std::shared_ptr<SharedRegion> region;
  REQUIRE(SharedRegion::create(1, &region).ok());
  const int descriptor = region->descriptor().get();
  REQUIRE(mmap(nullptr, kSharedPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) ==
          MAP_FAILED);
  REQUIRE(ftruncate(descriptor, 0) != 0);
  REQUIRE(write(descriptor, "x", 1) < 0);
  std::shared_ptr<const SharedRegion> attached;
  REQUIRE(SharedRegion::attach(region->descriptor(), kSharedPage, &attached).ok());
  REQUIRE(mprotect(const_cast<std::byte*>(attached->data()), kSharedPage, PROT_READ | PROT_WRITE) !=
          0);
  REQUIRE((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("what could shrink is not attached to", "[shared_memory]") {
  const Descriptor loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(loose.get(), kSharedPage) == 0);
  std::shared_ptr<const SharedRegion> attached;
  const Status status = SharedRegion::attach(loose, kSharedPage, &attached);
  REQUIRE(status.code() == tbcclRemoteError);
  REQUIRE(status.text().find("not sealed") != std::string::npos);
}

#endif

TEST_CASE("allocations are found by every address in them and by no other", "[shared_memory]") {
  std::vector<std::byte*> all;
  const size_t sizes[] = {1, 4096, kSharedPage, 100'000, 3u << 20};
  for (const size_t bytes : sizes) {
    void* memory = nullptr;
    REQUIRE(allocate_shared(bytes, &memory).ok());
    REQUIRE(reinterpret_cast<uintptr_t>(memory) % 4096 == 0);
    all.push_back(static_cast<std::byte*>(memory));
    REQUIRE(is_zero(all.back(), bytes));
  }
  SharedAllocation found{};
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t bytes = (sizes[i] + kSharedPage - 1) / kSharedPage * kSharedPage;
    REQUIRE(find_shared(all[i], sizes[i], &found));
    REQUIRE(found.offset == 0);
    REQUIRE(found.bytes == bytes);
    const uint64_t id = found.id;
    REQUIRE(find_shared(all[i] + sizes[i] - 1, 1, &found));
    REQUIRE(found.id == id);
    REQUIRE(found.offset == sizes[i] - 1);
    REQUIRE_FALSE(find_shared(all[i] + 1, bytes, &found));
    REQUIRE_FALSE(find_shared(all[i], SIZE_MAX, &found));
  }
  int here = 0;
  REQUIRE_FALSE(find_shared(&here, sizeof here, &found));
  REQUIRE_FALSE(find_shared(nullptr, 1, &found));
  for (std::byte* memory : all) {
    REQUIRE(free_shared(memory).ok());
    REQUIRE_FALSE(find_shared(memory, 1, &found));
  }
}

TEST_CASE("wrong frees and sizes are InvalidArgument", "[shared_memory]") {
  void* memory = nullptr;
  REQUIRE(allocate_shared(0, &memory).code() == tbcclInvalidArgument);
  REQUIRE(allocate_shared(1, nullptr).code() == tbcclInvalidArgument);
  int here = 0;
  REQUIRE(free_shared(&here).code() == tbcclInvalidArgument);
  REQUIRE(free_shared(nullptr).code() == tbcclInvalidArgument);
  REQUIRE(allocate_shared(100'000, &memory).ok());
  REQUIRE(free_shared(static_cast<std::byte*>(memory) + 4096).code() == tbcclInvalidArgument);
  REQUIRE(free_shared(memory).ok());
  REQUIRE(free_shared(memory).code() == tbcclInvalidArgument);
}

TEST_CASE("a descriptor for others outlives the allocation", "[shared_memory]") {
  void* memory = nullptr;
  REQUIRE(allocate_shared(1000, &memory).ok());
  std::memset(memory, 5, 1000);
  SharedAllocation found{};
  REQUIRE(find_shared(memory, 1000, &found));
  const Descriptor descriptor = duplicate_shared(found.id);
  REQUIRE(descriptor.open());
  REQUIRE((fcntl(descriptor.get(), F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(free_shared(memory).ok());
  REQUIRE_FALSE(duplicate_shared(found.id).open());
  std::shared_ptr<const SharedRegion> attached;
  REQUIRE(SharedRegion::attach(descriptor, found.bytes, &attached).ok());
  REQUIRE(attached->data()[999] == std::byte{5});
}

TEST_CASE("threads allocate, find and free at once", "[shared_memory]") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        void* memory = nullptr;
        SharedAllocation found{};
        if (!allocate_shared(5000, &memory).ok()) ++wrong;
        if (!find_shared(static_cast<std::byte*>(memory) + 10, 100, &found)) ++wrong;
        if (found.offset != 10 || !duplicate_shared(found.id).open()) ++wrong;
        if (!free_shared(memory).ok()) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  REQUIRE(wrong == 0);
}

TEST_CASE("a process token stays, and a forked child has another", "[shared_memory]") {
  const ProcessToken mine = process_token();
  REQUIRE(mine == process_token());
  REQUIRE(mine != ProcessToken{});
  void* memory = nullptr;
  REQUIRE(allocate_shared(100, &memory).ok());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool right = process_token() != mine && process_token() == process_token();
    _exit(right && free_shared(memory).ok() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  SharedAllocation found{};
  REQUIRE(find_shared(memory, 100, &found));
  REQUIRE(duplicate_shared(found.id).open());
  REQUIRE(free_shared(memory).ok());
}
