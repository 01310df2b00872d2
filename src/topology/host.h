// The host that this process runs on: who it is, and what of it this process may use.
#pragma once

#include <string>

namespace tbccl::topology {

// Equal exactly in processes that reach each other over loopback: the same boot of the same
// kernel and the same network namespace. At most 128 bytes, printable. Computed once a process.
const std::string& host_identity();

// Cores that this process may run on (affinity and containers counted), at least 1.
int usable_cores();

// For messages; "unknown" if the system does not say.
const std::string& host_name();

}  // namespace tbccl::topology
