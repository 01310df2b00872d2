#include "support/allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
thread_local bool refused = false;

void* allocate(size_t bytes, size_t alignment) noexcept {
  if (refused) return nullptr;
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

void* allocate_or_throw(size_t bytes, size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr size_t kPlain = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t n) { return allocate_or_throw(n, kPlain); }
void* operator new[](size_t n) { return allocate_or_throw(n, kPlain); }
void* operator new(size_t n, std::align_val_t a) { return allocate_or_throw(n, size_t(a)); }
void* operator new[](size_t n, std::align_val_t a) { return allocate_or_throw(n, size_t(a)); }

void* operator new(size_t n, const std::nothrow_t&) noexcept { return allocate(n, kPlain); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return allocate(n, kPlain); }
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, size_t(a));
}
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, size_t(a));
}

void operator delete(void* m) noexcept { std::free(m); }
void operator delete[](void* m) noexcept { std::free(m); }
void operator delete(void* m, size_t) noexcept { std::free(m); }
void operator delete[](void* m, size_t) noexcept { std::free(m); }
void operator delete(void* m, std::align_val_t) noexcept { std::free(m); }
void operator delete[](void* m, std::align_val_t) noexcept { std::free(m); }
void operator delete(void* m, size_t, std::align_val_t) noexcept { std::free(m); }
void operator delete[](void* m, size_t, std::align_val_t) noexcept { std::free(m); }
void operator delete(void* m, const std::nothrow_t&) noexcept { std::free(m); }
void operator delete[](void* m, const std::nothrow_t&) noexcept { std::free(m); }
void operator delete(void* m, std::align_val_t, const std::nothrow_t&) noexcept { std::free(m); }
void operator delete[](void* m, std::align_val_t, const std::nothrow_t&) noexcept { std::free(m); }

namespace tbccl::testing {

void count_allocations(bool on) {
  if (on && !counting.load()) allocations.store(0);
  counting.store(on);
}

int counted_allocations() { return allocations.load(); }

void refuse_memory(bool on) { refused = on; }

}  // namespace tbccl::testing
