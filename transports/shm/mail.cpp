#include "shm/mail.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "shm/socket.h"

namespace tbccl::shm {

Mail::Post Mail::flush(int socket) {
  if (rest_bytes_ == 0) return Post::kSent;
  const ptrdiff_t sent = send_bytes(socket, rest_, rest_bytes_, nullptr, 0);
  if (sent < 0) return try_again(errno) ? Post::kFull : Post::kBroken;
  const auto done = static_cast<size_t>(sent);
  std::memmove(rest_, rest_ + done, rest_bytes_ - done);
  rest_bytes_ -= done;
  return rest_bytes_ == 0 ? Post::kSent : Post::kFull;
}

Mail::Post Mail::ring(int socket) {
  const bool behind = rest_bytes_ > 0;
  const Post flushed = flush(socket);
  // The rest of a message wakes as well as a ring does.
  if (behind || flushed != Post::kSent) return flushed;
  if (send_bytes(socket, &kRing, 1, nullptr, 0) == 1) return Post::kSent;
  return try_again(errno) ? Post::kFull : Post::kBroken;
}

Mail::Post Mail::announce(int socket, uint64_t id, uint64_t bytes, const Descriptor& descriptor) {
  uint8_t message[kAnnouncementBytes];
  message[0] = kAnnouncement;
  std::memcpy(message + 1, &id, sizeof id);
  std::memcpy(message + 9, &bytes, sizeof bytes);
  const int number = descriptor.get();
  return post(socket, message, sizeof message, &number);
}

Mail::Post Mail::forget(int socket, uint64_t id) {
  uint8_t message[kForgettingBytes];
  message[0] = kForgetting;
  std::memcpy(message + 1, &id, sizeof id);
  return post(socket, message, sizeof message, nullptr);
}

Mail::Post Mail::post(int socket, const uint8_t* message, size_t bytes, const int* descriptor) {
  if (const Post flushed = flush(socket); flushed != Post::kSent) return flushed;
  const ptrdiff_t sent = send_bytes(socket, message, bytes, descriptor, descriptor ? 1 : 0);
  if (sent <= 0) return try_again(errno) || errno == ETOOMANYREFS ? Post::kFull : Post::kBroken;
  rest_bytes_ = bytes - static_cast<size_t>(sent);
  std::memcpy(rest_, message + sent, rest_bytes_);
  return Post::kSent;
}

Mail::Outcome Mail::read(int socket, Allocations& allocations, bool* came) {
  for (int i = 0; i < kReads; ++i) {
    uint8_t bytes[512];
    bool cut = false;
    const ptrdiff_t got = receive_bytes(socket, bytes, sizeof bytes, &received_, &cut);
    if (cut) return Outcome::kCut;
    if (got == 0) return Outcome::kClosed;
    if (got < 0) return try_again(errno) ? Outcome::kDry : Outcome::kFailed;
    *came = true;
    if (!parse(bytes, static_cast<size_t>(got), allocations)) return Outcome::kMalformed;
  }
  return Outcome::kDry;
}

bool Mail::parse(const uint8_t* data, size_t bytes, Allocations& allocations) {
  for (size_t at = 0; at < bytes;) {
    if (begun_bytes_ == 0 && data[at] == kRing) {
      ++at;
      continue;
    }
    begun_[begun_bytes_++] = data[at++];
    if (begun_[0] != kAnnouncement && begun_[0] != kForgetting) return false;
    const size_t whole = begun_[0] == kAnnouncement ? kAnnouncementBytes : kForgettingBytes;
    if (begun_bytes_ < whole) continue;
    begun_bytes_ = 0;
    if (!take_message(allocations)) return false;
  }
  // A descriptor comes with the first byte of its announcement, and nothing else brings one.
  return received_.size() <= (begun_bytes_ > 0 && begun_[0] == kAnnouncement ? 1u : 0u);
}

bool Mail::take_message(Allocations& allocations) {
  uint64_t id = 0, size = 0;
  std::memcpy(&id, begun_ + 1, sizeof id);
  if (begun_[0] == kForgetting) return allocations.forget(id);
  std::memcpy(&size, begun_ + 9, sizeof size);
  if (received_.empty()) return false;
  if (!allocations.add(id, size, std::move(received_.front()))) return false;
  received_.erase(received_.begin());
  return true;
}

void Mail::abandon() {
  for (auto& descriptor : received_) descriptor.release();
}

}  // namespace tbccl::shm
