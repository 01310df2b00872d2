// What a kernel is: the loops of one (type, operator) pair. `divisor` above 1 divides the result
// before it is rounded (only sums are ever divided). `also`, if not NULL, is a second destination.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tbccl/tbccl.h"

namespace tbccl::reduce {

struct Kernel {
  void (*combine)(void* dst, void* also, const void* a, const void* b, size_t count,
                  int32_t divisor) = nullptr;
  void (*fold)(void* dst, void* also, const void* const* sources, int k, size_t count,
               int32_t divisor) = nullptr;
};

using Scaling = void (*)(void* dst, const void* src, size_t count, const void* scalar);

// The instruction sets that kernels are compiled for: the one that the compiler was told, and what
// a processor may have beyond it.
enum Target { kCompiled, kAvx2, kAvx512, kTargets };

// Some types, for every target that there is (NULL: not compiled). A kernel is empty if the pair is
// not legal; an average has the kernel of the sum. A scaling multiplies by a scalar, and is NULL
// where a pre-multiplied sum is not legal. A family answers for its own types only.
struct Family {
  Kernel (*kernel[kTargets])(tbcclDataType_t type, tbcclRedOp_t op);
  Scaling (*scaling[kTargets])(tbcclDataType_t type);
};

extern const Family kIntegers8;
extern const Family kIntegers16;
extern const Family kIntegers32;
extern const Family kIntegers64;
extern const Family kBools;
extern const Family kFloats;    // 32 and 64 bits
extern const Family kFloats16;  // float16 and bfloat16
extern const Family kFloats8;
extern const Family kComplexes;

}  // namespace tbccl::reduce
