// The kernels of one instruction set, by type and operator.
#pragma once

#include "reduce/kernel.h"

namespace tbccl::reduce {

inline constexpr int kTypeNumbers = tbcclComplex128 + 1;
inline constexpr int kOpNumbers = tbcclLogicalXor + 1;

struct Table {
  Kernel kernels[kTypeNumbers][kOpNumbers];  // empty: not legal
  Scaling scalings[kTypeNumbers];            // NULL: not legal
};

// What combine, fold and scale use: the best that this processor has kernels for, unless a test or
// a benchmark chose another. One atomic load.
const Table& table();

}  // namespace tbccl::reduce
