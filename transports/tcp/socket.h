// Making sockets: non-blocking, close-on-exec, without SIGPIPE, with the options of a trunk.
#pragma once

#include <string>

#include "base/descriptor.h"
#include "tcp/address.h"

namespace tbccl::tcp {

// Listens at `address` with any port, or one of `range`. On failure the descriptor is not open and
// *error says why and what to do.
Descriptor make_listener(const asio::ip::address& address, PortRange range, Endpoint* bound,
                         std::string* error);

// The next pending connection. Not open: errno.
Descriptor accept_connection(int listener);

// A socket that has begun to connect. `local` may be NULL: any address. On failure it is not open
// and *failed names the system call; errno has the reason.
Descriptor start_connecting(const Endpoint& remote, const asio::ip::address* local,
                            const char** failed);

enum class Connecting { kPending, kDone, kFailed };
Connecting look_at_connecting(int socket, int* error);

// Options of a trunk: no delay, keep-alive that notices 5 s of kernel silence.
void set_trunk_options(int socket);
// Options that depend on where an established connection leads: within one host it has a short send
// buffer; the kernel adapts all others to their path, but holds little more than is under way.
void adapt_to_path(int socket);

Endpoint local_endpoint(int socket);  // unspecified if there is none
Endpoint remote_endpoint(int socket);

}  // namespace tbccl::tcp
