// What a collective's arguments say about the user's buffers: blocks, extents, whether it is in
// place.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "comm/communicator.h"
#include "engine/engine.h"
#include "schedule/schedule.h"

namespace tbccl::comm {

struct Buffers {
  std::shared_ptr<const engine::Blocks> blocks;  // v-forms
  uint64_t read = 0, written = 0;  // bytes from a buffer's beginning to its last block
  bool in_place = false;
};

// InvalidArgument: a count or a place that cannot be, a buffer that is missing, or buffers that
// overlap without being in place. `name` is the operation's, for messages.
Status read_buffers(const Operation& operation, const char* name, int rank, int size,
                    Buffers* buffers);

}  // namespace tbccl::comm
