// Fills the tables, and chooses one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/table.cpp"
#include "reduce/target.h"

#if HWY_ONCE
#include <array>
#include <atomic>
#include <string_view>

#include "reduce/processor.h"
#include "reduce/reduce.h"
#include "reduce/table.h"

namespace tbccl::reduce {
namespace {

const Family* family_of(tbcclDataType_t type) {
  switch (type) {
    case tbcclInt8:
    case tbcclUint8:
      return &kIntegers8;
    case tbcclInt16:
    case tbcclUint16:
      return &kIntegers16;
    case tbcclInt32:
    case tbcclUint32:
      return &kIntegers32;
    case tbcclInt64:
    case tbcclUint64:
      return &kIntegers64;
    case tbcclFloat32:
    case tbcclFloat64:
      return &kFloats;
    case tbcclFloat16:
    case tbcclBfloat16:
      return &kFloats16;
    case tbcclFloat8e4m3:
    case tbcclFloat8e5m2:
      return &kFloats8;
    case tbcclBool:
      return &kBools;
    case tbcclComplex64:
    case tbcclComplex128:
      return &kComplexes;
  }
  return nullptr;
}

Table table_for(int target) {
  Table result = {};
  for (int t = 0; t < kTypeNumbers; ++t) {
    const auto type = static_cast<tbcclDataType_t>(t);
    const Family* const family = family_of(type);
    if (family == nullptr || family->kernel[target] == nullptr) continue;
    for (int op = 0; op < kOpNumbers; ++op) {
      result.kernels[t][op] = family->kernel[target](type, static_cast<tbcclRedOp_t>(op));
    }
    if (family->scaling[target] != nullptr) result.scalings[t] = family->scaling[target](type);
  }
  return result;
}

// The instruction set that the compiler was told, which a build may have raised (-march).
const char* compiled_name() {
#if TBCCL_HAVE_HIGHWAY && HWY_STATIC_TARGET == HWY_AVX2
  return "AVX2";
#elif TBCCL_HAVE_HIGHWAY && HWY_STATIC_TARGET == HWY_AVX3
  return "AVX-512";
#elif TBCCL_HAVE_HIGHWAY && HWY_ARCH_ARM && TBCCL_VECTORS
  return "NEON";
#else
  return "plain";
#endif
}

struct Tables {
  std::array<Table, kTargets> all;
  std::array<const char*, kTargets> names = {};  // NULL: not compiled, or not on this processor

  Tables() : all{table_for(kCompiled), table_for(kAvx2), table_for(kAvx512)} {
    names[kCompiled] = compiled_name();
    if (kIntegers8.kernel[kAvx2] != nullptr && has_avx2()) names[kAvx2] = "AVX2";
    if (kIntegers8.kernel[kAvx512] != nullptr && has_avx512()) names[kAvx512] = "AVX-512";
  }
};

const Tables& tables() {
  static const Tables made;
  return made;
}

std::atomic<const Table*> in_use{nullptr};  // acquire/release: what it points to was made before

const Table* best() {
  int target = kTargets - 1;
  while (tables().names[target] == nullptr) --target;  // kCompiled has a name
  return &tables().all[target];
}

}  // namespace

const Table& table() {
  const Table* chosen = in_use.load(std::memory_order_acquire);
  if (chosen == nullptr) {  // several threads may get here, all with the same answer
    chosen = best();
    in_use.store(chosen, std::memory_order_release);
  }
  return *chosen;
}

std::vector<const char*> targets() {
  std::vector<const char*> result;
  for (const char* const name : tables().names) {
    if (name != nullptr) result.insert(result.begin(), name);
  }
  return result;
}

bool use_target(const char* name) {
  if (name == nullptr) {
    in_use.store(best(), std::memory_order_release);
    return true;
  }
  for (int target = 0; target < kTargets; ++target) {
    const char* const known = tables().names[target];
    if (known == nullptr || std::string_view(known) != name) continue;
    in_use.store(&tables().all[target], std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace tbccl::reduce
#endif
