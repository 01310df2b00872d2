#include "reduce/reduce.h"

#include <cstring>

#include "reduce/kernel.h"
#include "reduce/user.h"

namespace tbccl::reduce {
namespace {

Kernel kernel_for(tbcclDataType_t type, tbcclRedOp_t op) {
  switch (type) {
    case tbcclInt8:
    case tbcclUint8:
      return integer8_kernel(type, op);
    case tbcclInt16:
    case tbcclUint16:
      return integer16_kernel(type, op);
    case tbcclInt32:
    case tbcclUint32:
      return integer32_kernel(type, op);
    case tbcclInt64:
    case tbcclUint64:
      return integer64_kernel(type, op);
    case tbcclFloat32:
    case tbcclFloat64:
      return float_kernel(type, op);
    case tbcclFloat16:
    case tbcclBfloat16:
      return float16_kernel(type, op);
    case tbcclFloat8e4m3:
    case tbcclFloat8e5m2:
      return float8_kernel(type, op);
    case tbcclBool:
      return bool_kernel(op);
    case tbcclComplex64:
    case tbcclComplex128:
      return complex_kernel(type, op);
  }
  return {};
}

Scaling scaling_for(tbcclDataType_t type) {
  switch (type) {
    case tbcclInt8:
    case tbcclUint8:
      return integer8_scaling();
    case tbcclInt16:
    case tbcclUint16:
      return integer16_scaling();
    case tbcclInt32:
    case tbcclUint32:
      return integer32_scaling();
    case tbcclInt64:
    case tbcclUint64:
      return integer64_scaling();
    case tbcclFloat32:
    case tbcclFloat64:
      return float_scaling(type);
    case tbcclFloat16:
    case tbcclBfloat16:
      return float16_scaling(type);
    case tbcclFloat8e4m3:
    case tbcclFloat8e5m2:
      return float8_scaling(type);
    case tbcclComplex64:
    case tbcclComplex128:
      return complex_scaling(type);
    case tbcclBool:
      break;
  }
  return nullptr;
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

void combine(const Reduction& r, void* dst, const void* a, const void* b, size_t count,
             bool finish) {
  if (r.user != nullptr) {
    user_combine(r, dst, a, b, count);
    return;
  }
  const Kernel kernel = kernel_for(r.type, r.op);
  if (kernel.combine != nullptr) kernel.combine(dst, a, b, count, divisor_of(r, finish));
}

void fold(const Reduction& r, void* dst, const void* const* sources, int k, size_t count,
          bool finish) {
  if (r.user != nullptr) {
    user_fold(r, dst, sources, k, count);
    return;
  }
  const Kernel kernel = kernel_for(r.type, r.op);
  if (kernel.combine == nullptr) return;
  if (k == 2) {  // the same bits, without the accumulator
    kernel.combine(dst, sources[0], sources[1], count, divisor_of(r, finish));
  } else {
    kernel.fold(dst, sources, k, count, divisor_of(r, finish));
  }
}

void scale(const Reduction& r, void* dst, const void* src, size_t count) {
  if (const Scaling scaling = scaling_for(r.type)) scaling(dst, src, count, r.scalar);
}

void copy(const Reduction& r, void* dst, const void* src, size_t count) {
  if (r.ranks == 1 && r.user == nullptr && changes_single(r) && legal(r.type, r.op)) {
    fold(r, dst, &src, 1, count, true);
  } else if (dst != src && count > 0) {
    std::memcpy(dst, src, count * size_of(r.type));
  }
}

}  // namespace tbccl::reduce
