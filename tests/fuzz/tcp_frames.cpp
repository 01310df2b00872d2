// libFuzzer: the frame reader of the TCP transport, fed through a socket pair in pieces, against a
// plain parser of the same bytes. The first bytes of the input choose the pieces, and whether a
// frame is redirected, thrown away, or ends the reading.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tcp/frame.h"
#include "tcp/receiver.h"

using tbccl::tcp::Receiver;

namespace {

constexpr size_t kControlBytes = 8;

enum class Wish { kTake, kThrowAway, kRedirectInPlace, kRedirectLater, kStop };

Wish wish(const uint8_t* control, size_t frame) {
  switch (control[frame % 4] % 8) {
    case 0:
      return Wish::kThrowAway;
    case 1:
      return Wish::kRedirectInPlace;
    case 2:
      return Wish::kRedirectLater;
    case 3:
      return frame > 3 ? Wish::kStop : Wish::kTake;
    default:
      return Wish::kTake;
  }
}

struct Session {
  Receiver receiver;
  const uint8_t* control = nullptr;
  size_t frames = 0;
  bool stopped = false, redirected = false;
  std::vector<uint8_t> placed;
  std::vector<std::vector<uint8_t>> taken;  // header and payload of each whole frame wanted
};

void require(bool condition) {
  if (!condition) __builtin_trap();
}

void* place(void* self, void*, const void*, uint32_t length) {
  auto& session = *static_cast<Session*>(self);
  require(length > 0 && !session.stopped);
  session.redirected = false;
  session.placed.assign(length, 0);
  switch (wish(session.control, session.frames)) {
    case Wish::kThrowAway:
      return nullptr;
    case Wish::kRedirectInPlace:
      session.redirected = true;
      session.receiver.redirect();
      ++session.frames;
      break;
    case Wish::kStop:
      session.stopped = true;
      session.receiver.stop();
      return nullptr;
    default:
      break;
  }
  return session.placed.data();
}

void progress(void* self, void*, const void* header, uint32_t bytes, uint32_t length) {
  auto& session = *static_cast<Session*>(self);
  require(!session.stopped && bytes <= length);
  if (length > 0) require(!session.redirected);
  const Wish wanted = wish(session.control, session.frames);
  if (wanted == Wish::kRedirectLater && bytes < length) {
    session.redirected = true;
    session.receiver.redirect();
    std::vector<uint8_t>().swap(session.placed);  // writing there is found by the sanitizer
    ++session.frames;
    return;
  }
  if (bytes < length) return;
  ++session.frames;
  if (length > 0 && wanted == Wish::kThrowAway) return;
  const auto* from = static_cast<const uint8_t*>(header);
  std::vector<uint8_t> frame(from, from + TBCCL_FRAME_HEADER_BYTES);
  if (length > 0) frame.insert(frame.end(), session.placed.begin(), session.placed.end());
  session.taken.push_back(std::move(frame));
}

// Every frame taken is one of the input, in order.
void check(const Session& session, const uint8_t* data, size_t bytes) {
  size_t at = 0, next = 0;
  while (next < session.taken.size()) {
    uint32_t length = 0;
    require(bytes - at >= tbccl::tcp::kHeadBytes && tbccl::tcp::decode_prefix(data + at, &length));
    at += tbccl::tcp::kPrefixBytes;
    const size_t frame = TBCCL_FRAME_HEADER_BYTES + size_t{length};
    require(bytes - at >= frame);
    const auto& taken = session.taken[next];
    if (taken.size() == frame && std::memcmp(taken.data(), data + at, frame) == 0) ++next;
    at += frame;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes < kControlBytes) return 0;
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 &&
          fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
  auto session = std::make_unique<Session>();
  session->control = data;
  tbcclTransportCallbacks_t callbacks{};
  callbacks.self = session.get();
  callbacks.place = place;
  callbacks.progress = progress;
  std::vector<uint8_t> discard(tbccl::tcp::kDiscardBytes);

  const uint8_t* const stream = data + kControlBytes;
  const size_t total = bytes - kControlBytes;
  size_t at = 0;
  bool reading = true;
  for (size_t i = 0; reading && at < total; ++i) {
    const size_t piece = std::min<size_t>(total - at, 1 + data[4 + i % 4] * 37u);
    require(send(ends[0], stream + at, piece, MSG_NOSIGNAL) == static_cast<ptrdiff_t>(piece));
    at += piece;
    if (at == total) shutdown(ends[0], SHUT_WR);
    for (bool more = true; more;) {
      int happened = 0;
      switch (session->receiver.read(ends[1], callbacks, nullptr, discard.data(), &happened)) {
        case Receiver::Outcome::kMore:
          break;
        case Receiver::Outcome::kDry:
          more = false;
          break;
        default:
          more = reading = false;
          break;
      }
    }
  }
  check(*session, stream, at);
  close(ends[0]);
  close(ends[1]);
  return 0;
}
