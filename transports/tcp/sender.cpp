#include "tcp/sender.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace tbccl::tcp {
namespace {

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;  // the socket has SO_NOSIGPIPE
#endif
constexpr size_t kBytesPerWrite = 1u << 20;
constexpr int kWritesPerFlush = 4;

ptrdiff_t write_parts(int socket, iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(count);
  for (int attempt = 0;; ++attempt) {
    const ptrdiff_t written = ::sendmsg(socket, &message, kSendFlags);
    if (written >= 0 || errno != EINTR || attempt == 8) return written;
  }
}

bool try_again(int error) {
  // ENOBUFS: the interface's queue is full (macOS).
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

}  // namespace

bool Sender::send(const void* header, const void* payload, uint32_t length, uint64_t token) {
  if (count_ == kQueue) return false;
  Frame& frame = queue_[(first_ + count_) % kQueue];
  encode_head(frame.head, header, length);
  frame.length = length;
  frame.done = 0;
  frame.payload = static_cast<const uint8_t*>(payload);
  frame.token = token;
  ++count_;
  return true;
}

int Sender::flush(int socket, const tbcclTransportCallbacks_t& callbacks, void* user) {
  int happened = 0;
  for (int i = 0; i < kWritesPerFlush && count_ > 0 && error_ == 0; ++i) {
    size_t wanted = 0;
    const ptrdiff_t written = write(socket, &wanted);
    blocked_ = written < static_cast<ptrdiff_t>(wanted);
    if (written < 0) {
      if (!try_again(errno)) error_ = errno;
      break;
    }
    ++happened;
    // All accounts first: a callback may send.
    uint32_t complete = 0;
    auto left = static_cast<uint64_t>(written);
    for (; complete < count_; ++complete) {
      Frame& frame = queue_[(first_ + complete) % kQueue];
      const uint64_t mine = std::min(left, kHeadBytes + uint64_t{frame.length} - frame.done);
      frame.done += mine;
      left -= mine;
      if (frame.done < kHeadBytes + uint64_t{frame.length}) break;
    }
    for (; complete > 0; --complete) {
      const uint64_t token = queue_[first_].token;
      first_ = (first_ + 1) % kQueue;
      --count_;
      callbacks.sent(callbacks.self, user, token);
      if (stopped_) return happened;
    }
    if (blocked_) break;
  }
  return happened;
}

void Sender::stop() {
  stopped_ = true;
  asked_ = false;
  count_ = 0;
}

ptrdiff_t Sender::write(int socket, size_t* wanted) {
  iovec parts[2 * kQueue];
  int used = 0;
  for (uint32_t i = 0; i < count_ && *wanted < kBytesPerWrite; ++i) {
    Frame& frame = queue_[(first_ + i) % kQueue];
    if (frame.done < kHeadBytes) {
      parts[used++] = {frame.head + frame.done, static_cast<size_t>(kHeadBytes - frame.done)};
      *wanted += kHeadBytes - frame.done;
    }
    const uint64_t from = frame.done > kHeadBytes ? frame.done - kHeadBytes : 0;
    // Never part of a payload with something behind it: the budget ends the write.
    const size_t rest = std::min<size_t>(frame.length - from, kBytesPerWrite);
    if (rest > 0) parts[used++] = {const_cast<uint8_t*>(frame.payload) + from, rest};
    *wanted += rest;
  }
  return write_parts(socket, parts, used);
}

}  // namespace tbccl::tcp
