// Frames over established trunks: every length, both ways at once, back pressure, within one
// process and between two.
#include <algorithm>
#include <string>

#include "rig.h"

using namespace rig;

namespace {

const std::vector<uint32_t> kSizes = {
    0,       1,    7,       8,         63,     64,     65,    200,    303,           kInlineMost,
    305,     4096, 8192,    32'767,    32'768, 32'769, 3,     65'535, 65'536,        65'537,
    100'001, 0,    131'072, kMost - 1, kMost,  kMost,  kMost, 2,      kMost / 2 + 1, 0};

// Sends frames as far as they are taken; keeps the payloads until they are reported as sent.
class Stream {
 public:
  Stream(Side& side, Peer& peer, uint64_t first, std::vector<uint32_t> sizes)
      : side_(side), peer_(peer), first_(first), sizes_(std::move(sizes)) {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      payloads_.push_back(payload_of(first_ + i, sizes_[i]));
    }
  }
  void push() {
    while (next_ < sizes_.size()) {
      const auto code = side_.send(peer_, first_ + next_, payloads_[next_]);
      failed = failed || code == TBCCL_FAILED;
      if (code != TBCCL_OK) {
        waiting_ = peer_.writable;
        ++refusals;
        return;
      }
      ++next_;
    }
  }
  // After a refusal it goes on only when told to.
  void push_if_writable() {
    if (waiting_ < 0 || peer_.writable > waiting_) {
      waiting_ = -1;
      push();
    }
  }
  bool done() const { return next_ == sizes_.size() && peer_.sent.size() == sizes_.size(); }
  // The frames that `receiver` got are exactly these, in this order.
  void check(const Peer& receiver) const {
    REQUIRE_FALSE(failed);
    REQUIRE(receiver.frames.size() == sizes_.size());
    std::vector<uint64_t> tokens = peer_.sent;
    std::sort(tokens.begin(), tokens.end());
    for (size_t i = 0; i < sizes_.size(); ++i) {
      INFO("frame " << i << " of " << sizes_[i] << " bytes");
      REQUIRE(receiver.frames[i].header == header_of(first_ + i));
      REQUIRE(receiver.frames[i].payload == payloads_[i]);
      REQUIRE(tokens[i] == first_ + i);
    }
  }
  size_t size() const { return sizes_.size(); }
  int refusals = 0;
  bool failed = false;

 private:
  Side& side_;
  Peer& peer_;
  uint64_t first_;
  std::vector<uint32_t> sizes_;
  std::vector<Bytes> payloads_;
  size_t next_ = 0;
  int waiting_ = -1;
};

void exchange(Pair& pair, Stream& there, Stream& back) {
  there.push();
  back.push();
  REQUIRE(pair.pump_until([&] {
    there.push_if_writable();
    back.push_if_writable();
    return there.done() && back.done() && pair.to_a->frames.size() >= there.size() &&
           pair.to_b->frames.size() >= back.size();
  }));
  there.check(*pair.to_a);
  back.check(*pair.to_b);
}

}  // namespace

TEST_CASE("frames of all lengths arrive whole and in order, both ways at once", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  Stream there(pair.a, *pair.to_b, 1000, kSizes);
  Stream back(pair.b, *pair.to_a, 2000, std::vector<uint32_t>(kSizes.rbegin(), kSizes.rend()));
  exchange(pair, there, back);
  REQUIRE(pair.a.wrong.empty());
}

TEST_CASE("many small frames", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  std::vector<uint32_t> sizes;
  for (uint32_t i = 0; i < 5000; ++i) sizes.push_back(i * 7919 % 700);
  Stream there(pair.a, *pair.to_b, 0, sizes);
  Stream back(pair.b, *pair.to_a, 100'000, sizes);
  exchange(pair, there, back);
  REQUIRE(there.refusals > 0);
}

TEST_CASE("a receiver that does not read pushes back, and loses nothing", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  const uint32_t length = GENERATE(as<uint32_t>{}, 0, 1000, 20'000, 100'000);
  Stream there(pair.a, *pair.to_b, 0, std::vector<uint32_t>(200, length));
  there.push();
  REQUIRE(there.refusals > 0);
  for (int i = 0; i < 100; ++i) pair.a.poll();
  REQUIRE(pair.to_b->writable == 0);
  REQUIRE_FALSE(there.done());
  REQUIRE_FALSE(pair.to_b->down);
  REQUIRE(pair.pump_until([&] {
    there.push_if_writable();
    return there.done() && pair.to_a->frames.size() == there.size();
  }));
  there.check(*pair.to_a);
}

TEST_CASE("sending from inside sent() is bounded in depth and loses nothing", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  uint64_t next = 0;
  int depth = 0, deepest = 0;
  const Bytes large = payload_of(0, 40'000);
  const auto go_on = [&](Peer& peer) {
    deepest = std::max(deepest, ++depth);
    if (next < 3000) {
      const uint64_t number = next++;
      if (pair.a.send(peer, number, large.data(), number % 7 == 0 ? 40'000 : 10) != TBCCL_OK) {
        --next;
      }
    }
    --depth;
  };
  pair.a.on_sent = [&](Peer& peer, uint64_t) { go_on(peer); };
  pair.a.on_writable = go_on;
  size_t delivered = 0;
  pair.b.on_deliver = [&](Peer&, const void* header, const void*, uint32_t) {
    if (std::memcmp(header, header_of(delivered).data(), TBCCL_FRAME_HEADER_BYTES) == 0)
      ++delivered;
  };
  go_on(*pair.to_b);
  REQUIRE(pair.pump_until([&] { return delivered == 3000 && pair.to_b->sent.size() == 3000; }));
  REQUIRE(deepest < 10);
}

TEST_CASE("a reply from inside deliver(), and frames from inside up()", "[shm]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes payload = payload_of(1, 1000);
  a.on_up = [&](Peer& peer) { return a.send(peer, 1, payload) == TBCCL_OK ? 1 : 0; };
  b.on_up = [&](Peer& peer) { return b.send(peer, 1, payload) == TBCCL_OK ? 1 : 0; };
  int turns = 0;
  const auto answer = [&](Side& side) {
    return [&](Peer& peer, const void*, const void* content, uint32_t length) {
      const Bytes copy(static_cast<const uint8_t*>(content),
                       static_cast<const uint8_t*>(content) + length);
      if (copy == payload && ++turns < 100) side.send(peer, 1, payload);
    };
  };
  a.on_deliver = answer(a);
  b.on_deliver = answer(b);
  a.connect(b.listen());
  REQUIRE(pump({&a, &b}, [&] { return turns >= 100; }));
}

namespace {

// Receives a stream in another process, and says how it went.
int receive_stream(Child& parent, uint64_t first, size_t frames) {
  Side side;
  size_t next = 0;
  bool right = true;
  side.on_deliver = [&](Peer&, const void* header, const void* payload, uint32_t length) {
    right = right && length == kSizes[next % kSizes.size()] &&
            is_frame(first + next, header, payload, length);
    ++next;
  };
  if (!parent.say(side.listen())) return 1;
  if (!pump({&side}, [&] { return next == frames || !right; })) return 2;
  if (!right) return 3;
  // The last word goes back as a frame: until it is there nobody closes.
  if (side.send(*side.peers[0], 77, payload_of(77, 1000)) != TBCCL_OK) return 4;
  if (!pump({&side}, [&] { return side.peers[0]->down; })) return 5;
  return side.peers[0]->gone == 1 && side.wrong.empty() ? 0 : 6;
}

}  // namespace

TEST_CASE("frames of all lengths between two processes", "[shm]") {
  const LeakCheck leaks;
  std::vector<uint32_t> sizes;
  for (int i = 0; i < 10; ++i) sizes.insert(sizes.end(), kSizes.begin(), kSizes.end());
  Child child([&](Child& parent) { return receive_stream(parent, 500, sizes.size()); });
  {
    Side side;
    Peer& peer = side.connect(child.hear_handle());
    REQUIRE(pump({&side}, [&] { return peer.up; }));
    Stream stream(side, peer, 500, sizes);
    stream.push();
    REQUIRE(pump({&side}, [&] {
      stream.push_if_writable();
      return (stream.done() && peer.frames.size() == 1) || peer.down;
    }));
    REQUIRE_FALSE(peer.down);
    REQUIRE(peer.frames[0].payload == payload_of(77, 1000));
  }
  REQUIRE(child.wait() == 0);
}
