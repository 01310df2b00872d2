// Frames into a byte stream, through a short queue that refers to the payloads where they are:
// what is sent together leaves in one system call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tbccl/transport.h"
#include "tcp/frame.h"

namespace tbccl::tcp {

class Sender {
 public:
  // Queues a frame for the next flush; false: there is no room.
  bool send(const void* header, const void* payload, uint32_t length, uint64_t token);
  // Writes a bounded amount of what is queued; reports each frame that is written. Returns the
  // number of writes. An error of the socket is kept for error(): what the peer sent
  // before can still be read.
  int flush(int socket, const tbcclTransportCallbacks_t& callbacks, void* user);
  // A frame was refused: ready() says when there is room again.
  void ask() { asked_ = true; }
  bool ready() const { return asked_ && error_ == 0 && count_ <= kQueue / 2; }
  void answered() { asked_ = false; }
  // No payload is read and no callback made any more.
  void stop();

  bool queued() const { return count_ > 0; }
  bool waiting() const { return count_ > 0 || asked_; }
  // The socket took less than there was: it must say when it takes more.
  bool blocked() const { return blocked_ && count_ > 0; }
  int error() const { return error_; }

 private:
  static constexpr uint32_t kQueue = 64;

  struct Frame {
    uint8_t head[kHeadBytes];
    uint32_t length;
    uint64_t done;  // bytes written of head and payload
    const uint8_t* payload;
    uint64_t token;
  };

  ptrdiff_t write(int socket, size_t* wanted);

  bool asked_ = false;
  bool stopped_ = false;
  bool blocked_ = false;
  int error_ = 0;
  uint32_t first_ = 0, count_ = 0;
  Frame queue_[kQueue];
};

}  // namespace tbccl::tcp
