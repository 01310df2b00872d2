// The shared-memory transport: frames between ranks of one host. See README.md of this folder.
#pragma once

#include "tbccl/transport.h"

namespace tbccl::shm {

// The only instance; never NULL. Shapes of receive: slotted, pulled.
const tbcclTransport_t* transport();

}  // namespace tbccl::shm
