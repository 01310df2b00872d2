// Unix stream sockets: non-blocking, close-on-exec, without SIGPIPE, with descriptors passed along.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace tbccl::shm {

// Where a context listens: on Linux an abstract name, which ends with the socket and exists in one
// network namespace; elsewhere a path in $TMPDIR, which unlink_name() removes (a process that is
// killed leaves it behind). Made of 128 random bits.
std::string make_name(std::string* error);  // empty: *error
void unlink_name(const std::string& name);

// What a peer needs for connecting: version of the format, then the name.
inline constexpr size_t kMaxNameBytes = 100;
std::vector<uint8_t> encode_handle(const std::string& name);
bool decode_handle(const void* handle, size_t bytes, std::string* name, std::string* error);

// On failure the descriptor is not open: errno.
Descriptor make_listener(const std::string& name);
Descriptor accept_connection(int listener);
Descriptor make_socket();
// 0, or errno; EAGAIN: the listener's queue is full, try again.
int connect_to(int socket, const std::string& name);

struct Peer {
  bool ours = false;  // runs as our user
  bool self = false;  // is this process
  int process = 0;    // 0: not known
};
Peer identify(int socket);

// One system call each. Not more than kMaxPassed descriptors go with one message.
inline constexpr int kMaxPassed = 2;
ptrdiff_t send_bytes(int socket, const void* data, size_t bytes, const int* descriptors, int count);
// Received descriptors are appended. *cut is set if some did not fit (or could not be opened, which
// happens when this process has no descriptors left).
ptrdiff_t receive_bytes(int socket, void* data, size_t bytes, std::vector<Descriptor>* descriptors,
                        bool* cut);

bool try_again(int error);
bool out_of_descriptors(int error);

}  // namespace tbccl::shm
