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
  // Where the first block that is in both buffers lies in each, in bytes.
  bool share = false;
  uint64_t read_at = 0, written_at = 0;
};

// InvalidArgument: a count or a place that cannot be, a buffer that is missing, or buffers that
// overlap without being in place. `name` is the operation's, for messages.
Status read_buffers(const Operation& operation, const char* name, int rank, int size,
                    Buffers* buffers);

// Whether read_buffers() would find the same, and nothing wrong, for an operation of equal blocks
// that differs from the one that gave `known` in its buffers' addresses alone.
bool same_buffers(const Operation& operation, const Buffers& known);

}  // namespace tbccl::comm
