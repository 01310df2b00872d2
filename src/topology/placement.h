// Where the library's threads run, and what they are called.
#pragma once

namespace tbccl::topology {

// Places the calling thread, worker `index` of `count` on this host. With hwloc, and more cores
// than workers, each is bound to a core of its own; otherwise the kernel decides. On macOS the
// thread gets the class user-interactive, which runs on performance cores. Never fails.
void place_worker(int index, int count);

// Names the calling thread for debuggers and tools; at most 15 characters are kept.
void name_thread(const char* name);

}  // namespace tbccl::topology
