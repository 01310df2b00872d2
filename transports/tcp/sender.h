// Frames into a byte stream: at once if the socket takes them, otherwise from a short queue that
// refers to the payloads where they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tbccl/transport.h"
#include "tcp/frame.h"

namespace tbccl::tcp {

class Sender {
 public:
  enum class Outcome { kWritten, kQueued, kFull };

  // kWritten: all bytes are in the kernel. An error of the socket queues the frame and is kept for
  // error(): what the peer sent before can still be read.
  Outcome send(int socket, const void* header, const void* payload, uint32_t length,
               uint64_t token);
  // Writes a bounded amount of what is queued; reports each frame that is written.
  // Returns the number of frames reported.
  int flush(int socket, const tbcclTransportCallbacks_t& callbacks, void* user);
  // A frame was refused: ready() says when there is room again.
  void ask() { asked_ = true; }
  bool ready() const { return asked_ && error_ == 0 && count_ <= kQueue / 2; }
  void answered() { asked_ = false; }
  // No payload is read and no callback made any more.
  void stop();

  bool queued() const { return count_ > 0; }
  bool waiting() const { return count_ > 0 || asked_; }
  int error() const { return error_; }

 private:
  static constexpr uint32_t kQueue = 16;

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
  int error_ = 0;
  uint32_t first_ = 0, count_ = 0;
  Frame queue_[kQueue];
};

}  // namespace tbccl::tcp
