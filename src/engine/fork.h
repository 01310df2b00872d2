// A child made by fork() has no threads of its parent's and must not touch its sockets or locks.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tbccl::engine {

// Counts the forks between the first lane's process and this one. Registers the handler.
uint64_t fork_generation();

// Called for each new lane: forked() then speaks of its process.
void note_lane();

// What every entry answers in a child.
Status forked_error();

}  // namespace tbccl::engine
