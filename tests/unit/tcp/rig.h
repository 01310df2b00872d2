// Contexts of the TCP transport in one process, and what the tests ask of them. Waits have no
// expectations about time: they end by what is waited for, or fail the test after a minute.
#pragma once

#include <dirent.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tcp/tcp.h"
#include "unit/catch.h"

namespace rig {

using Header = std::array<uint8_t, TBCCL_FRAME_HEADER_BYTES>;
using Bytes = std::vector<uint8_t>;

inline int open_descriptors() {
  int count = 0;
#ifdef __linux__
  DIR* directory = opendir("/proc/self/fd");
#else
  DIR* directory = opendir("/dev/fd");
#endif
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// First in a test: nothing declared after it may leave a descriptor behind.
struct LeakCheck {
  int before = open_descriptors();
  ~LeakCheck() { CHECK(open_descriptors() == before); }
};

// Frame number `number` of a stream: its header, and what its payload must be.
inline uint8_t pattern(uint64_t number, uint64_t i) {
  return static_cast<uint8_t>((number * 0x9e3779b97f4a7c15u + i * 0x2545f491u) >> 13);
}
inline Header header_of(uint64_t number) {
  Header header;
  for (size_t i = 0; i < header.size(); ++i) header[i] = pattern(number ^ 0x5555, i);
  std::memcpy(header.data(), &number, sizeof number);
  return header;
}
inline Bytes payload_of(uint64_t number, uint32_t length) {
  Bytes payload(length);
  for (uint32_t i = 0; i < length; ++i) payload[i] = pattern(number, i);
  return payload;
}

struct Frame {
  Header header;
  Bytes payload;
};

// One end of a trunk as the test's link layer sees it.
struct Peer {
  tbcclTrunk_t* trunk = nullptr;
  bool up = false;
  bool down = false;
  int gone = -1;
  std::string text;
  std::string reply;
  int writable = 0;
  Bytes placed;  // destination of the frame being received
  uint32_t progress = 0;
  std::vector<Frame> frames;   // received in full
  std::vector<uint64_t> sent;  // tokens
};

class Side {
 public:
  Side() {
    callbacks_.size = sizeof callbacks_;
    callbacks_.self = this;
    callbacks_.incoming = [](void* self, tbcclTrunk_t* trunk, const void* hello, size_t hello_bytes,
                             void* reply, size_t* reply_bytes, void** user) {
      return me(self).incoming(trunk, hello, hello_bytes, reply, reply_bytes, user);
    };
    callbacks_.up = [](void* self, void* user, const void* reply, size_t bytes) {
      Peer& peer = at(user);
      peer.up = true;
      peer.reply.assign(static_cast<const char*>(reply), bytes);
      return me(self).on_up ? me(self).on_up(peer) : 1;
    };
    callbacks_.down = [](void* self, void* user, int gone, const char* text) {
      Peer& peer = at(user);
      CHECK_FALSE(peer.down);
      peer.down = true;
      peer.gone = gone;
      peer.text = text;
      if (me(self).on_down) me(self).on_down(peer);
    };
    callbacks_.place = [](void* self, void* user, const void* header, uint32_t length) {
      CHECK(length > 0);
      Peer& peer = at(user);
      peer.progress = 0;
      if (me(self).on_place) return me(self).on_place(peer, header, length);
      peer.placed.assign(length, 0);
      return static_cast<void*>(peer.placed.data());
    };
    callbacks_.progress = [](void* self, void* user, const void* header, uint32_t bytes,
                             uint32_t length) {
      Peer& peer = at(user);
      if (length > 0) CHECK(bytes > peer.progress);
      CHECK(bytes <= length);
      peer.progress = bytes;
      if (me(self).on_progress) return me(self).on_progress(peer, header, bytes, length);
      if (bytes < length) return;
      Frame frame;
      std::memcpy(frame.header.data(), header, frame.header.size());
      if (length > 0) frame.payload = std::move(peer.placed);
      peer.frames.push_back(std::move(frame));
    };
    callbacks_.sent = [](void* self, void* user, uint64_t token) {
      at(user).sent.push_back(token);
      if (me(self).on_sent) me(self).on_sent(at(user), token);
    };
    callbacks_.writable = [](void* self, void* user) {
      ++at(user).writable;
      if (me(self).on_writable) me(self).on_writable(at(user));
    };
    callbacks_.watch = [](void* self, int descriptor, int events) {
      auto& watched = me(self).watched;
      if (events == 0) {
        CHECK(watched.erase(descriptor) == 1);
      } else {
        watched[descriptor] = events;
      }
    };
    callbacks_.log = [](void*, int, const char*) {};
    char error[256] = "";
    INFO(error);
    REQUIRE(api().open(&callbacks_, error, sizeof error, &context_) == TBCCL_OK);
  }
  ~Side() { close(); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  static const tbcclTransport_t& api() { return *tbccl::tcp::transport(); }

  void close() {
    if (context_ == nullptr) return;
    api().close(context_);
    context_ = nullptr;
    CHECK(watched.empty());
  }
  Bytes listen(const std::string& address) {
    Bytes handle(TBCCL_HANDLE_MAX_BYTES);
    size_t bytes = 0;
    char error[256] = "";
    const auto code =
        api().listen(context_, address.c_str(), handle.data(), &bytes, error, sizeof error);
    INFO(error);
    REQUIRE(code == TBCCL_OK);
    handle.resize(bytes);
    return handle;
  }
  Peer& connect(const Bytes& handle, const std::string& hello, uint32_t timeout_ms = 60'000,
                const char* local = nullptr) {
    Peer& peer = add_peer();
    char error[256] = "";
    const auto code =
        api().connect(context_, local, handle.data(), handle.size(), hello.data(), hello.size(),
                      timeout_ms, &peer, &peer.trunk, error, sizeof error);
    INFO(error);
    REQUIRE(code == TBCCL_OK);
    return peer;
  }
  tbcclTransportCode_t send(Peer& peer, const Header& header, const Bytes& payload,
                            uint64_t token) {
    const tbcclTransportCode_t code =
        api().send(context_, peer.trunk, header.data(), payload.data(),
                   static_cast<uint32_t>(payload.size()), token);
    api().flush(context_);  // as the link layer does when it has sent what it has
    return code;
  }
  int poll() { return api().poll(context_); }
  void redirect(Peer& peer) { api().redirect(context_, peer.trunk); }
  void close_trunk(Peer& peer, bool flush) { api().close_trunk(context_, peer.trunk, flush); }
  tbcclTransportContext_t* context() { return context_; }

  std::string refuse;                        // the hello that is refused
  std::string answer = "welcome";            // the reply to others
  std::vector<std::string> hellos;           // in order of coming
  std::vector<std::unique_ptr<Peer>> peers;  // connected ones and accepted ones, in order
  std::map<int, int> watched;
  std::function<int(Peer&)> on_up;
  std::function<void(Peer&)> on_down;
  std::function<void*(Peer&, const void*, uint32_t)> on_place;
  std::function<void(Peer&, const void*, uint32_t, uint32_t)> on_progress;
  std::function<void(Peer&, uint64_t)> on_sent;
  std::function<void(Peer&)> on_writable;

 private:
  static Side& me(void* self) { return *static_cast<Side*>(self); }
  static Peer& at(void* user) { return *static_cast<Peer*>(user); }
  Peer& add_peer() {
    peers.push_back(std::make_unique<Peer>());
    return *peers.back();
  }
  int incoming(tbcclTrunk_t* trunk, const void* hello, size_t hello_bytes, void* reply,
               size_t* reply_bytes, void** user) {
    hellos.emplace_back(static_cast<const char*>(hello), hello_bytes);
    if (!refuse.empty() && hellos.back() == refuse) return 0;
    Peer& peer = add_peer();
    peer.trunk = trunk;
    std::memcpy(reply, answer.data(), answer.size());
    *reply_bytes = answer.size();
    *user = &peer;
    return 1;
  }

  tbcclTransportCallbacks_t callbacks_{};
  tbcclTransportContext_t* context_ = nullptr;
};

// Polls until `done`, at most a minute.
inline bool pump(std::initializer_list<Side*> sides, const std::function<bool()>& done) {
  const uint64_t limit = tbccl::now_ns() + 60'000'000'000;
  while (!done()) {
    int happened = 0;
    for (Side* side : sides) {
      if (side->context() != nullptr) happened += side->poll();
    }
    if (happened == 0) {
      if (tbccl::now_ns() > limit) return false;
      std::this_thread::yield();
    }
  }
  return true;
}

// The same for one side, sleeping on what it asked to be woken for and on nothing else.
bool sleep_until(Side& side, const std::function<bool()>& done);

// Two sides and one trunk between them.
struct Pair {
  Side a, b;
  Peer* to_b = nullptr;
  Peer* to_a = nullptr;
  explicit Pair(const std::string& address = "127.0.0.1") {
    const Bytes handle = b.listen(address);
    to_b = &a.connect(handle, "hello");
    REQUIRE(pump({&a, &b}, [&] { return to_b->up && !b.peers.empty() && b.peers[0]->up; }));
    to_a = b.peers[0].get();
  }
  bool pump_until(const std::function<bool()>& done) { return pump({&a, &b}, done); }
};

// A plain blocking connection to a listener's handle, IPv4.
int stranger(const Bytes& handle);
// Reads until the end of the stream; true if it came to an end.
bool ends(int socket);

}  // namespace rig
