// What a kernel is: the loops of one (type, operator) pair. `divisor` above 1 divides the result
// before it is rounded (only sums are ever divided).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tbccl/tbccl.h"

namespace tbccl::reduce {

struct Kernel {
  void (*combine)(void* dst, const void* a, const void* b, size_t count, int32_t divisor) = nullptr;
  void (*fold)(void* dst, const void* const* sources, int k, size_t count,
               int32_t divisor) = nullptr;
};

using Scaling = void (*)(void* dst, const void* src, size_t count, const void* scalar);

// The kernel of a pair; an average has the kernel of the sum. Empty if the pair is not legal.
// Each answers for its own types only.
Kernel integer8_kernel(tbcclDataType_t type, tbcclRedOp_t op);
Kernel integer16_kernel(tbcclDataType_t type, tbcclRedOp_t op);
Kernel integer32_kernel(tbcclDataType_t type, tbcclRedOp_t op);
Kernel integer64_kernel(tbcclDataType_t type, tbcclRedOp_t op);
Kernel bool_kernel(tbcclRedOp_t op);
Kernel float_kernel(tbcclDataType_t type, tbcclRedOp_t op);    // 32 and 64 bits
Kernel float16_kernel(tbcclDataType_t type, tbcclRedOp_t op);  // float16 and bfloat16
Kernel float8_kernel(tbcclDataType_t type, tbcclRedOp_t op);
Kernel complex_kernel(tbcclDataType_t type, tbcclRedOp_t op);

// Multiplication by a scalar; NULL where a pre-multiplied sum is not legal.
Scaling integer8_scaling();   // the sign does not matter
Scaling integer16_scaling();  // the sign does not matter
Scaling integer32_scaling();  // the sign does not matter
Scaling integer64_scaling();  // the sign does not matter
Scaling float_scaling(tbcclDataType_t type);
Scaling float16_scaling(tbcclDataType_t type);
Scaling float8_scaling(tbcclDataType_t type);
Scaling complex_scaling(tbcclDataType_t type);

}  // namespace tbccl::reduce
