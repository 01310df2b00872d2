// Reduction by a function of the user's (tbcclRedOpCreate).
#pragma once

#include "reduce/reduce.h"

namespace tbccl::reduce {

// As reduce::combine and reduce::fold. The function is given aligned buffers whatever the
// alignment of the arguments, and never more elements at once than the call has.
void user_combine(const Reduction& r, void* dst, const void* a, const void* b, size_t count);
void user_fold(const Reduction& r, void* dst, const void* const* sources, int k, size_t count);

}  // namespace tbccl::reduce
