// The TCP transport: frames over TCP connections, IPv4 and IPv6. See README.md of this folder.
#pragma once

#include "tbccl/transport.h"

namespace tbccl::tcp {

// The only instance; never NULL. Shape of receive: placed.
const tbcclTransport_t* transport();

}  // namespace tbccl::tcp
