// Names of result codes, for logs and messages.
#pragma once

#include "tbccl/tbccl.h"

namespace tbccl {

// "RemoteError"; "unknown result" for a number that is no code. Static text, never NULL.
const char* name_of(tbcclResult_t result);

}  // namespace tbccl
