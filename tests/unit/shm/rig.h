// Contexts of the shared-memory transport, in one process or several, and what the tests ask of
// them. Waits have no expectations about time: they end by what is waited for, or fail after a
// minute.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shm/shm.h"
#include "unit/catch.h"

namespace rig {

using Header = std::array<uint8_t, TBCCL_FRAME_HEADER_BYTES>;
using Bytes = std::vector<uint8_t>;

inline constexpr uint32_t kInlineMost = 304;
inline constexpr uint32_t kMost = 256u << 10;

int open_descriptors();
int our_mappings();      // of shared memory made by the library; 0 where they cannot be told
int files_in_dev_shm();  // of the library's names; 0 where there is no such folder

// First in a test: nothing declared after it may leave anything behind.
struct LeakCheck {
  int descriptors = open_descriptors();
  int mappings = our_mappings();
  int files = files_in_dev_shm();
  ~LeakCheck() {
    CHECK(open_descriptors() == descriptors);
    CHECK(our_mappings() == mappings);
    CHECK(files_in_dev_shm() == files);
  }
};

// Frame number `number` of a stream: its header, and what its payload must be.
inline uint8_t pattern(uint64_t number, uint64_t i) {
  return static_cast<uint8_t>((number * 0x9e3779b97f4a7c15u + i * 0x2545f491u) >> 13);
}
Header header_of(uint64_t number);
Bytes payload_of(uint64_t number, uint32_t length);
// Whether a frame is number `number` of its stream, with that length.
bool is_frame(uint64_t number, const void* header, const void* payload, uint32_t length);

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
  std::vector<Frame> frames;
  std::vector<uint64_t> sent;  // tokens
};

// No assertions inside: also used in threads and in child processes. What is wrong stands in
// `wrong`.
class Side {
 public:
  Side();
  ~Side() { close(); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  static const tbcclTransport_t& api() { return *tbccl::shm::transport(); }

  void close();
  Bytes listen();
  Peer& connect(const Bytes& handle, const std::string& hello = "hello",
                uint32_t timeout_ms = 60'000);
  tbcclTransportCode_t send(Peer& peer, uint64_t number, const void* payload, uint32_t length);
  tbcclTransportCode_t send(Peer& peer, uint64_t number, const Bytes& payload) {
    return send(peer, number, payload.data(), static_cast<uint32_t>(payload.size()));
  }
  int poll() { return api().poll(context_); }
  void close_trunk(Peer& peer) { api().close_trunk(context_, peer.trunk, 0); }
  // NULL pointers where the transport says no.
  tbcclBoard_t board(Peer& peer);
  tbcclTransportContext_t* context() { return context_; }

  std::string wrong;
  std::string refuse;                        // the hello that is refused
  std::string answer = "welcome";            // the reply to others
  std::vector<std::string> hellos;           // in order of coming
  std::vector<std::unique_ptr<Peer>> peers;  // connected ones and accepted ones, in order
  std::map<int, int> watched;
  std::vector<std::string> logged;
  std::function<int(Peer&)> on_up;
  std::function<void(Peer&)> on_down;
  std::function<void(Peer&, const void*, const void*, uint32_t)> on_deliver;
  std::function<void(Peer&, uint64_t)> on_sent;
  std::function<void(Peer&)> on_writable;

 private:
  Peer& add_peer() {
    peers.push_back(std::make_unique<Peer>());
    return *peers.back();
  }
  int incoming(tbcclTrunk_t* trunk, const void* hello, size_t hello_bytes, void* reply,
               size_t* reply_bytes, void** user);

  tbcclTransportCallbacks_t callbacks_{};
  tbcclTransportContext_t* context_ = nullptr;
};

// Polls until `done`, at most a minute.
bool pump(std::initializer_list<Side*> sides, const std::function<bool()>& done);

// The same for one side, sleeping on what it asked to be woken for and on nothing else. False if
// nothing woke it for a minute.
bool sleep_until(Side& side, const std::function<bool()>& done);

// Two sides and one trunk between them.
struct Pair {
  Side a, b;
  Peer* to_b = nullptr;
  Peer* to_a = nullptr;
  Pair() {
    to_b = &a.connect(b.listen());
    REQUIRE(pump({&a, &b}, [&] { return to_b->up && !b.peers.empty() && b.peers[0]->up; }));
    to_a = b.peers[0].get();
  }
  bool pump_until(const std::function<bool()>& done) { return pump({&a, &b}, done); }
};

// Another process, forked before this one has any context. It reads and writes bytes through pipes;
// its exit status is what `work` returns (0: all is well), and it never returns to the tests.
class Child {
 public:
  explicit Child(const std::function<int(Child&)>& work);
  ~Child();  // kills it if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Of both processes; whole or false. At most a minute.
  bool say(const void* data, size_t bytes) const;
  bool hear(void* data, size_t bytes) const;
  bool say(const Bytes& handle) const;
  Bytes hear_handle() const;

  void kill();  // SIGKILL, and waits
  int wait();   // its exit status; -1 if it did not exit by itself

 private:
  pid_t process_ = -1;
  int in_ = -1;
  int out_ = -1;
};

}  // namespace rig
