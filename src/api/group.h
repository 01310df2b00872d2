// Groups: calls between tbcclGroupStart and tbcclGroupEnd of one thread, kept until the end.
#pragma once

#include <memory>

#include "api/handles.h"

namespace tbccl::api {

bool in_group();

// Keeps a call for the end of this thread's group. `request` NULL: it is waited for there.
tbcclResult_t add_to_group(tbcclComm_t comm, const engine::Call& call, tbcclRequest_t* request);

}  // namespace tbccl::api
