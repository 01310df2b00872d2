// Frames out of a byte stream. Small ones come many to a system call through a small buffer; a
// payload is read directly to where the link layer wants it, together with the head of what
// follows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tbccl/transport.h"
#include "tcp/frame.h"

namespace tbccl::tcp {

// Where bytes go that nobody wants; shared by the trunks of a context.
inline constexpr size_t kDiscardBytes = 64 * 1024;

class Receiver {
 public:
  enum class Outcome {
    kDry,     // the socket had no more
    kMore,    // there may be more; this trunk's share of a poll is used up, or likely all is read
    kClosed,  // end of the stream
    kFailed,  // errno
    kMalformed,  // not a stream of frames
    kStopped     // by a callback
  };

  // Reads a bounded amount and makes the callbacks. Counts frames and reads in *happened.
  Outcome read(int socket, const tbcclTransportCallbacks_t& callbacks, void* user, uint8_t* discard,
               int* happened);

  // The rest of the frame being received goes nowhere.
  void redirect();
  // No destination is written and no callback made any more.
  void stop();

  // The greeting comes through the same buffer.
  Outcome read_greeting(int socket);
  const uint8_t* data() const { return inbox_ + begin_; }
  size_t bytes() const { return end_ - begin_; }
  void consume(size_t bytes) { begin_ += static_cast<uint32_t>(bytes); }

 private:
  static constexpr uint32_t kInboxBytes = 8 * 1024;

  bool parse(const tbcclTransportCallbacks_t& callbacks, void* user, int* happened);
  void open_frame(const tbcclTransportCallbacks_t& callbacks, void* user);
  void advance(const tbcclTransportCallbacks_t& callbacks, void* user, uint32_t bytes);
  ptrdiff_t fill(int socket, uint8_t* discard, size_t* wanted, uint32_t* payload);

  bool in_frame_ = false;    // a payload is being received
  bool redirected_ = false;  // ... for nobody
  bool stopped_ = false;
  uint8_t* destination_ = nullptr;  // NULL: discard
  uint32_t length_ = 0;
  uint32_t received_ = 0;
  uint32_t begin_ = 0, end_ = 0;  // of what the inbox holds
  alignas(8) uint8_t header_[TBCCL_FRAME_HEADER_BYTES];
  alignas(8) uint8_t inbox_[kInboxBytes];
};

}  // namespace tbccl::tcp
