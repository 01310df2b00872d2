// Two (or more) links in one process, with clients that check what they are told: every byte
// once, only what was granted, nothing after the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "link/links.h"
#include "support/memory_transport.h"

namespace tbccl::link::testing {

// The tests' clock; moves only when a test says so.
inline uint64_t& virtual_time() {
  static uint64_t time = 1'000'000'000;
  return time;
}
inline uint64_t virtual_now() { return virtual_time(); }

inline std::byte pattern(uint32_t seed, uint64_t at) {
  return static_cast<std::byte>((at * 131 + at / 251 + seed * 17 + 5) & 0xff);
}

struct Outgoing {
  std::vector<std::byte> data;
  Send* send = nullptr;
  int released = 0;
};

struct Arriving {
  std::vector<std::byte> data;
  std::vector<uint8_t> seen;  // how often each byte was reported
  Recv* recv = nullptr;
  uint64_t granted = 0;
  uint32_t unit = 1;
  int done = 0;
  bool withdrawn = false;
  bool consume = false;  // bytes are destroyed in place once they have been reported
};

class Side : public Client, public Watcher {
 public:
  Side(int rank, const Options& options) : rank_(rank), links_(options, *this, *this) {}

  Links& links() { return links_; }

  Outgoing& send(int peer, const Key& key, uint64_t total, uint64_t available,
                 uint64_t fingerprint = 7, bool announce = false, uint64_t turn = 0,
                 uint32_t step = 0) {
    auto& out = outgoing[next_];
    out.data.resize(total);
    for (uint64_t i = 0; i < total; ++i) out.data[i] = pattern(key.step, i);
    SendSpec spec;
    spec.key = key;
    spec.data = out.data.data();
    spec.total = total;
    spec.available = available;
    spec.fingerprint = fingerprint;
    spec.announce = announce;
    spec.turn = turn;
    spec.step = step;
    spec.owner = this;
    spec.index = next_++;
    out.send = links_.post_send(peer, spec);
    return out;
  }

  Arriving& receive(int peer, const Key& key, uint64_t total, uint64_t granted,
                    uint64_t fingerprint = 7, uint32_t unit = 1) {
    auto& in = arriving[next_];
    in.data.assign(total, std::byte{0});
    in.seen.assign(total, 0);
    in.granted = granted;
    in.unit = unit;
    RecvSpec spec;
    spec.key = key;
    spec.total = total;
    spec.granted = granted;
    spec.fingerprint = fingerprint;
    spec.unit = unit;
    spec.owner = this;
    spec.index = next_++;
    in.recv = links_.post_recv(peer, spec);
    return in;
  }

  void extend(Arriving& in, uint64_t granted) {
    in.granted = granted;
    links_.extend(in.recv, granted);
  }

  std::byte* place(void*, uint32_t index, uint64_t offset, uint32_t length, uint32_t) override {
    Arriving& in = arriving.at(index);
    check(!in.withdrawn && in.done == 0, "place after the end");
    check(offset + length <= in.granted, "place beyond the grant");
    for (uint64_t i = offset; i < offset + length; ++i) {
      check(in.seen[i] == 0, "place over bytes that were reported");
    }
    return in.data.data() + offset;
  }

  void arrived(void*, uint32_t index, uint64_t offset, uint32_t length, const std::byte* data,
               bool last) override {
    Arriving& in = arriving.at(index);
    check(!in.withdrawn && in.done == 0, "arrived after the end");
    check(offset + length <= in.granted, "arrived beyond the grant");
    check(length > 0 || in.data.empty(), "nothing arrived");
    check(offset + length == in.data.size() || (offset + length) % in.unit == 0, "a unit was cut");
    if (length > 0 && data != in.data.data() + offset)
      std::memcpy(in.data.data() + offset, data, length);
    for (uint64_t i = offset; i < offset + length; ++i) ++in.seen[i];
    if (last) ++in.done;
    if (last) in.recv = nullptr;
    if (on_arrived) on_arrived(index);
  }

  void released(void*, uint32_t index) override {
    Outgoing& out = outgoing.at(index);
    check(out.released == 0, "released twice");
    ++out.released;
    out.send = nullptr;
    // Nobody may read it any more.
    std::fill(out.data.begin(), out.data.end(), std::byte{0xee});
    if (on_released) on_released(index);
  }

  void unexpected(int peer, const Key& key, uint64_t total, uint64_t) override {
    surprises.push_back({peer, key, total});
    if (on_unexpected) on_unexpected(peer, key, total);
  }
  void mismatch(int, const Key& key, void*, uint32_t) override { mismatches.push_back(key); }
  void peer_failed(int peer, const Status& status) override { failures[peer] = status.text(); }
  void watch(int, int) override {}

  void check(bool good, const char* text) {
    if (!good) problems.push_back(std::string("rank ") + std::to_string(rank_) + ": " + text);
  }

  struct Surprise {
    int peer;
    Key key;
    uint64_t total;
  };
  std::map<uint32_t, Outgoing> outgoing;
  std::map<uint32_t, Arriving> arriving;
  std::vector<Surprise> surprises;
  std::vector<Key> mismatches;
  std::map<int, std::string> failures;
  std::vector<std::string> problems;
  std::function<void(uint32_t)> on_arrived;
  std::function<void(uint32_t)> on_released;
  std::function<void(int, const Key&, uint64_t)> on_unexpected;

 private:
  int rank_;
  uint32_t next_ = 0;
  Links links_;
};

// True if all of it is there, once, and right. `bytes`: only so many from the start.
inline bool intact(const Arriving& in, uint32_t seed, uint64_t bytes = UINT64_MAX) {
  bytes = std::min<uint64_t>(bytes, in.data.size());
  for (uint64_t i = 0; i < bytes; ++i) {
    if (in.seen[i] != 1 || in.data[i] != pattern(seed, i)) return false;
  }
  return true;
}

// Ranks 0 and 1 joined by trunks over one memory network.
struct Pair {
  explicit Pair(const tbccl::testing::MemoryOptions& memory = {}, int trunks = 1, Options base = {},
                bool real_clock = false)
      : network(memory) {
    for (int rank = 0; rank < 2; ++rank) {
      base.rank = rank;
      base.size = 2;
      base.session[0] = 42;
      if (!real_clock) base.clock = virtual_now;
      side[static_cast<size_t>(rank)] = std::make_unique<Side>(rank, base);
    }
    std::vector<std::byte> handle[2];
    for (size_t rank = 0; rank < 2; ++rank) {
      ok = ok && side[rank]->links().listen(network.transport(), "here", &handle[rank]).ok();
    }
    for (int rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < trunks; ++i) {
        TrunkSpec spec;
        spec.peer = 1 - rank;
        spec.id = static_cast<uint32_t>(i);
        spec.transport = network.transport();
        spec.handle = handle[1 - rank];
        spec.name = "memory " + std::to_string(i);
        ok = ok && side[static_cast<size_t>(rank)]->links().add_trunk(spec).ok();
      }
    }
    for (int i = 0; i < 20; ++i) turn();
    ok = ok && side[0]->links().all_connected() && side[1]->links().all_connected();
  }
  ~Pair() {
    side[0].reset();
    side[1].reset();
  }

  bool turn() {
    const bool a = side[0]->links().progress();
    const bool b = side[1]->links().progress();
    return a || b;
  }
  // Until nothing happens any more.
  void settle() {
    for (int quiet = 0, i = 0; quiet < 3 && i < 100000; ++i) quiet = turn() ? 0 : quiet + 1;
  }
  // And lets time pass, in steps of a millisecond.
  void pass(uint64_t milliseconds) {
    for (uint64_t i = 0; i < milliseconds; ++i) {
      virtual_time() += 1'000'000;
      settle();
    }
  }
  std::string problems() const {
    std::string all;
    for (const auto& s : side) {
      for (const auto& text : s->problems) all += text + "\n";
    }
    return all;
  }
  Side& a() { return *side[0]; }
  Side& b() { return *side[1]; }

  tbccl::testing::MemoryNetwork network;
  std::unique_ptr<Side> side[2];
  bool ok = true;
};

inline Key key_of(uint32_t step, uint64_t op = 1, uint32_t comm = 1,
                  Class cls = Class::kCollective) {
  Key key;
  key.comm = comm;
  key.cls = cls;
  key.step = step;
  key.op = op;
  return key;
}

}  // namespace tbccl::link::testing
