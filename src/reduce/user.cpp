#include "reduce/user.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tbccl::reduce {
namespace {

constexpr size_t kChunkBytes = 4096;  // two of them on the stack

// What the function may take for granted: the alignment of the C type.
bool aligned(const void* pointer, const Reduction& r) {
  const bool complex = r.type == tbcclComplex64 || r.type == tbcclComplex128;
  const uint32_t alignment = complex ? size_of(r.type) / 2 : size_of(r.type);
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

const unsigned char* at(const void* buffer, size_t offset) {
  return static_cast<const unsigned char*>(buffer) + offset;
}

}  // namespace

void user_combine(const Reduction& r, void* dst, const void* a, const void* b, size_t count) {
  if (count == 0) return;
  const size_t bytes = count * size_of(r.type);
  if (dst != a && aligned(dst, r) && aligned(a, r)) {
    if (dst != b) std::memcpy(dst, b, bytes);
    r.user(a, dst, count, r.type, r.context);
    return;
  }
  const void* sources[] = {a, b};
  user_fold(r, dst, sources, 2, count);
}

void user_fold(const Reduction& r, void* dst, const void* const* sources, int k, size_t count) {
  alignas(64) unsigned char chunks[2][kChunkBytes];
  unsigned char* in = chunks[0];
  unsigned char* inout = chunks[1];
  const size_t bytes = count * size_of(r.type);
  for (size_t first = 0; first < bytes; first += kChunkBytes) {
    const size_t chunk = std::min(kChunkBytes, bytes - first);
    std::memcpy(in, at(sources[0], first), chunk);
    for (int j = 1; j < k; ++j) {
      std::memcpy(inout, at(sources[j], first), chunk);
      r.user(in, inout, chunk / size_of(r.type), r.type, r.context);
      std::swap(in, inout);  // the result is what the next function call reads
    }
    std::memcpy(static_cast<unsigned char*>(dst) + first, in, chunk);
  }
}

}  // namespace tbccl::reduce
