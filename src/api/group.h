// Groups: calls between tbcclGroupStart and tbcclGroupEnd of one thread, kept until the end.
#pragma once

#include <memory>
#include <vector>

#include "api/handles.h"

namespace tbccl::api {

// Calls are not to be made now, but to be given to add_to_group.
bool in_group();

// Keeps a call for the end of this thread's group. `request` NULL: it is waited for there.
tbcclResult_t add_to_group(tbcclComm_t comm, const engine::Call& call, tbcclRequest_t* request);
// Likewise the start of a persistent request.
tbcclResult_t start_in_group(tbcclRequest_t request);
bool group_is_open();

// While one lives, this thread's calls are given to it, ready to be made, whether or not a group is
// open.
class Capture {
 public:
  Capture();
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::vector<engine::Call> calls;

 private:
  Capture* const outer_;
};

}  // namespace tbccl::api
