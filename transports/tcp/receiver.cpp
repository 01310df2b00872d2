#include "tcp/receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tbccl::tcp {
namespace {

// What one trunk may take of a poll, so that it cannot starve the others.
constexpr size_t kBytesPerRead = 1u << 20;
constexpr int kReadsPerPoll = 8;
constexpr int kFramesPerPoll = 64;

}  // namespace

Receiver::Outcome Receiver::read(int socket, const tbcclTransportCallbacks_t& callbacks, void* user,
                                 uint8_t* discard, int* happened) {
  if (begin_ != end_ && !parse(callbacks, user, happened)) {  // what came behind the greeting
    return stopped_ ? Outcome::kStopped : Outcome::kMalformed;
  }
  size_t total = 0;
  const int before = *happened;
  for (int i = 0; i < kReadsPerPoll; ++i) {
    size_t wanted = 0;
    uint32_t payload = 0;
    const ptrdiff_t count = fill(socket, discard, &wanted, &payload);
    if (count == 0) return Outcome::kClosed;
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::kDry : Outcome::kFailed;
    }
    ++*happened;
    const auto bytes = static_cast<uint32_t>(count);
    if (in_frame_) {
      const uint32_t mine = std::min(bytes, payload);
      begin_ = 0;
      end_ = bytes - mine;
      advance(callbacks, user, mine);
    } else {
      end_ += bytes;
    }
    if (stopped_) return Outcome::kStopped;
    if (!parse(callbacks, user, happened)) {
      return stopped_ ? Outcome::kStopped : Outcome::kMalformed;
    }
    total += bytes;
    if (total >= kBytesPerRead || *happened - before >= kFramesPerPoll) break;
    // The rest of a frame that has begun is likely on its way; otherwise a short read says that
    // all has been read, and another one would only cost time.
    if (bytes < wanted && !in_frame_) break;
  }
  return Outcome::kMore;
}

void Receiver::redirect() {
  destination_ = nullptr;
  redirected_ = true;
}

void Receiver::stop() {
  stopped_ = true;
  destination_ = nullptr;
}

Receiver::Outcome Receiver::read_greeting(int socket) {
  const ptrdiff_t count = ::recv(socket, inbox_ + end_, kInboxBytes - end_, 0);
  if (count == 0) return end_ == kInboxBytes ? Outcome::kMalformed : Outcome::kClosed;
  if (count < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? Outcome::kDry
                                                                     : Outcome::kFailed;
  }
  end_ += static_cast<uint32_t>(count);
  return Outcome::kMore;
}

// Works off the inbox, but for an incomplete head at its end. False: malformed, or stopped.
bool Receiver::parse(const tbcclTransportCallbacks_t& callbacks, void* user, int* happened) {
  while (!stopped_) {
    const uint32_t held = end_ - begin_;
    if (in_frame_) {
      const uint32_t mine = std::min(held, length_ - received_);
      if (mine == 0) break;
      if (destination_ != nullptr) std::memcpy(destination_ + received_, inbox_ + begin_, mine);
      begin_ += mine;
      advance(callbacks, user, mine);
      continue;
    }
    if (held >= kPrefixBytes && !decode_prefix(inbox_ + begin_, &length_)) return false;
    if (held < kHeadBytes) break;
    std::memcpy(header_, inbox_ + begin_ + kPrefixBytes, sizeof header_);
    begin_ += kHeadBytes;
    ++*happened;
    open_frame(callbacks, user);
  }
  if (begin_ == end_) begin_ = end_ = 0;
  return !stopped_;
}

void Receiver::open_frame(const tbcclTransportCallbacks_t& callbacks, void* user) {
  if (length_ == 0) {
    callbacks.progress(callbacks.self, user, header_, 0, 0);
    return;
  }
  received_ = 0;
  redirected_ = false;
  in_frame_ = true;
  void* place = callbacks.place(callbacks.self, user, header_, length_);
  destination_ = redirected_ || stopped_ ? nullptr : static_cast<uint8_t*>(place);
}

void Receiver::advance(const tbcclTransportCallbacks_t& callbacks, void* user, uint32_t bytes) {
  received_ += bytes;
  in_frame_ = received_ < length_;
  if (!in_frame_) destination_ = nullptr;
  if (!redirected_) callbacks.progress(callbacks.self, user, header_, received_, length_);
}

// One read: of the rest of the payload and the inbox, or of the inbox alone. *payload is the part
// of it that belongs to the frame.
ptrdiff_t Receiver::fill(int socket, uint8_t* discard, size_t* wanted, uint32_t* payload) {
  if (!in_frame_) {
    if (begin_ > 0) {
      std::memmove(inbox_, inbox_ + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    *wanted = kInboxBytes - end_;
    return ::recv(socket, inbox_ + end_, *wanted, 0);
  }
  const uint32_t rest = length_ - received_;
  const size_t limit = destination_ != nullptr ? kBytesPerRead : kDiscardBytes;
  *payload = static_cast<uint32_t>(std::min<size_t>(rest, limit));
  iovec parts[2] = {{destination_ != nullptr ? destination_ + received_ : discard, *payload},
                    {inbox_, kInboxBytes}};
  const int used = *payload == rest ? 2 : 1;
  *wanted = *payload + (used == 2 ? kInboxBytes : 0);
  return ::readv(socket, parts, used);
}

}  // namespace tbccl::tcp
