#include "reduce/reduce.h"

#include <cstring>

#include "reduce/float_mode.h"
#include "reduce/kernel.h"
#include "reduce/table.h"
#include "reduce/user.h"

namespace tbccl::reduce {
namespace {

// Numbers come from a C API: any value is possible. Empty or NULL: not legal.
Kernel kernel_for(tbcclDataType_t type, tbcclRedOp_t op) {
  const auto t = static_cast<unsigned>(type), o = static_cast<unsigned>(op);
  return t < kTypeNumbers && o < kOpNumbers ? table().kernels[t][o] : Kernel{};
}

Scaling scaling_for(tbcclDataType_t type) {
  const auto t = static_cast<unsigned>(type);
  return t < kTypeNumbers ? table().scalings[t] : nullptr;
}

int32_t divisor_of(const Reduction& r, bool finish) {
  return finish && r.op == tbcclAvg ? r.ranks : 1;
}

// Whether a single contribution is already a result: not where results are 0 or 1, or averages.
bool changes_single(const Reduction& r) {
  return r.type == tbcclBool || r.op == tbcclAvg || r.op == tbcclLogicalAnd ||
         r.op == tbcclLogicalOr || r.op == tbcclLogicalXor;
}

}  // namespace

bool legal(tbcclDataType_t type, tbcclRedOp_t op) {
  return kernel_for(type, op).combine != nullptr;
}

void combine(const Reduction& r, void* dst, const void* a, const void* b, size_t count, bool finish,
             void* also) {
  const void* const sources[] = {a, b};
  if (r.user == nullptr) {
    fold(r, dst, sources, 2, count, finish, also);
    return;
  }
  user_combine(r, dst, a, b, count);
  if (also != nullptr && count > 0) std::memcpy(also, dst, count * size_of(r.type));
}

void fold(const Reduction& r, void* dst, const void* const* sources, int k, size_t count,
          bool finish, void* also) {
  if (r.user != nullptr) {
    user_fold(r, dst, sources, k, count);
    if (also != nullptr && count > 0) std::memcpy(also, dst, count * size_of(r.type));
    return;
  }
  const Kernel kernel = kernel_for(r.type, r.op);
  if (kernel.combine == nullptr) return;
  const StandardFloats standard;
  const int32_t divisor = divisor_of(r, finish);
  if (k == 2) {
    kernel.combine(dst, also, sources[0], sources[1], count, divisor);
  } else {
    kernel.fold(dst, also, sources, k, count, divisor);
  }
}

void scale(const Reduction& r, void* dst, const void* src, size_t count) {
  const StandardFloats standard;
  if (const Scaling scaling = scaling_for(r.type)) scaling(dst, src, count, r.scalar);
}

void copy(const Reduction& r, void* dst, const void* src, size_t count) {
  const bool changes = r.ranks == 1 ? changes_single(r) : r.op == tbcclAvg;
  if (changes && r.user == nullptr && legal(r.type, r.op)) {
    fold(r, dst, &src, 1, count, true);
  } else if (dst != src && count > 0) {
    std::memcpy(dst, src, count * size_of(r.type));
  }
}

}  // namespace tbccl::reduce
