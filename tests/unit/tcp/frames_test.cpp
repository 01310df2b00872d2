// Frames over established trunks: every size, both ways at once, back pressure, redirection.
#include <algorithm>
#include <string>

#include "rig.h"

using namespace rig;

namespace {

const std::vector<uint32_t> kSizes = {
    0,      1,       7,       8, 64,      4096, 8119,          8120,     8121, 8192, 8193,
    65'536, 100'001, 524'288, 0, 1 << 20, 3,    (1 << 20) + 1, 4u << 20, 2,    0};

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
      const uint64_t number = first_ + next_;
      const auto code = side_.send(peer_, header_of(number), payloads_[next_], number);
      REQUIRE(code != TBCCL_FAILED);
      if (code == TBCCL_AGAIN) {
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
    REQUIRE(receiver.frames.size() == sizes_.size());
    for (size_t i = 0; i < sizes_.size(); ++i) {
      INFO("frame " << i << " of " << sizes_[i] << " bytes");
      REQUIRE(receiver.frames[i].header == header_of(first_ + i));
      REQUIRE(receiver.frames[i].payload == payloads_[i]);
      REQUIRE(peer_.sent[i] == first_ + i);
    }
  }
  size_t size() const { return sizes_.size(); }
  int refusals = 0;

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

TEST_CASE("frames of all sizes arrive whole and in order, both ways at once", "[tcp]") {
  const LeakCheck leaks;
  Pair pair(GENERATE(as<std::string>{}, "127.0.0.1", "::1"));
  Stream there(pair.a, *pair.to_b, 1000, kSizes);
  std::vector<uint32_t> reversed(kSizes.rbegin(), kSizes.rend());
  Stream back(pair.b, *pair.to_a, 2000, reversed);
  exchange(pair, there, back);
}

TEST_CASE("many small frames", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  std::vector<uint32_t> sizes;
  for (uint32_t i = 0; i < 5000; ++i) sizes.push_back(i * 7919 % 300);
  Stream there(pair.a, *pair.to_b, 0, sizes);
  Stream back(pair.b, *pair.to_a, 100'000, sizes);
  exchange(pair, there, back);
}

TEST_CASE("a receiver that does not read pushes back, and loses nothing", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  Stream there(pair.a, *pair.to_b, 0, std::vector<uint32_t>(200, 1u << 20));
  there.push();
  // Only the sender is polled: it must come to a standstill by being refused.
  REQUIRE(pump({&pair.a}, [&] { return there.refusals > 0; }));
  for (int i = 0; i < 100; ++i) pair.a.poll();
  REQUIRE_FALSE(there.done());
  REQUIRE_FALSE(pair.to_b->down);
  REQUIRE(std::any_of(pair.a.watched.begin(), pair.a.watched.end(),
                      [](const auto& entry) { return entry.second == 3; }));
  REQUIRE(pair.pump_until([&] {
    there.push_if_writable();
    return there.done() && pair.to_a->frames.size() == there.size();
  }));
  there.check(*pair.to_a);
  REQUIRE(pair.pump_until([&] {
    return std::none_of(pair.a.watched.begin(), pair.a.watched.end(),
                        [](const auto& entry) { return entry.second & 2; });
  }));
}

TEST_CASE("sending from inside sent() is bounded in depth and loses nothing", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  uint64_t next = 0;
  int depth = 0, deepest = 0;
  const auto go_on = [&](Peer& peer) {
    deepest = std::max(deepest, ++depth);
    while (next < 3000) {
      const uint64_t number = next++;
      if (pair.a.send(peer, header_of(number), {}, number) == TBCCL_OK) break;
      --next;
      break;
    }
    --depth;
  };
  pair.a.on_sent = [&](Peer& peer, uint64_t) { go_on(peer); };
  pair.a.on_writable = go_on;
  go_on(*pair.to_b);
  REQUIRE(pair.pump_until([&] { return pair.to_a->frames.size() == 3000; }));
  REQUIRE(deepest < 20);
  for (uint64_t i = 0; i < 3000; ++i) REQUIRE(pair.to_a->frames[i].header == header_of(i));
}

TEST_CASE("a redirected frame writes nothing more, and the next one is whole", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  constexpr uint32_t kLength = 3u << 20;
  const bool in_place = GENERATE(false, true);
  const bool outside = GENERATE(false, true);
  Bytes destination(kLength, 0xee);
  uint32_t reported = 0;
  bool redirected = false;
  std::vector<uint64_t> whole;
  const auto redirect = [&](Peer& peer) {
    redirected = true;
    pair.b.redirect(peer);
  };
  pair.b.on_place = [&](Peer& peer, const void* header, uint32_t length) -> void* {
    uint64_t number = 0;
    std::memcpy(&number, header, sizeof number);
    if (number == 1) {
      if (in_place) redirect(peer);
      return destination.data();
    }
    peer.placed.assign(length, 0);
    return peer.placed.data();
  };
  pair.b.on_progress = [&](Peer& peer, const void* header, uint32_t bytes, uint32_t length) {
    uint64_t number = 0;
    std::memcpy(&number, header, sizeof number);
    if (number == 1) {
      REQUIRE_FALSE(redirected);
      reported = bytes;
      if (bytes < length && !outside) {
        redirect(peer);
        std::fill(destination.begin() + bytes, destination.end(), 0xdd);
      }
    } else if (bytes == length) {
      if (length > 0) REQUIRE(peer.placed == payload_of(number, length));
      whole.push_back(number);
    }
  };
  // The first frame is sent on its own, so that the sender's buffers cut it in the middle.
  const Bytes first = payload_of(1, kLength);
  REQUIRE(pair.a.send(*pair.to_b, header_of(1), first, 1) == TBCCL_OK);
  REQUIRE(pump({&pair.b}, [&] { return reported > 0 || redirected; }));
  if (outside && reported < kLength && !redirected) {
    redirect(*pair.to_a);
    std::fill(destination.begin() + reported, destination.end(), 0xdd);
  }
  const Bytes second = payload_of(2, 70'000);
  REQUIRE(pair.a.send(*pair.to_b, header_of(2), second, 2) == TBCCL_OK);
  REQUIRE(pair.a.send(*pair.to_b, header_of(3), {}, 3) == TBCCL_OK);
  REQUIRE(pair.pump_until([&] { return whole.size() == 2; }));
  REQUIRE(whole == std::vector<uint64_t>{2, 3});
  REQUIRE(redirected);
  const Bytes expected = payload_of(1, reported);
  REQUIRE(std::equal(expected.begin(), expected.end(), destination.begin()));
  const uint8_t poison = in_place ? 0xee : 0xdd;
  REQUIRE(std::all_of(destination.begin() + reported, destination.end(),
                      [&](uint8_t byte) { return byte == poison; }));
}

TEST_CASE("a frame that nobody wants is thrown away, with progress", "[tcp]") {
  const LeakCheck leaks;
  Pair pair;
  uint32_t last = 0;
  pair.b.on_place = [](Peer&, const void*, uint32_t) -> void* { return nullptr; };
  pair.b.on_progress = [&](Peer&, const void*, uint32_t bytes, uint32_t) { last = bytes; };
  for (const uint32_t length : {5u, 20'000u, 1u << 20}) {
    const Bytes payload = payload_of(1, length);
    REQUIRE(pair.a.send(*pair.to_b, header_of(1), payload, 1) == TBCCL_OK);
    REQUIRE(pair.pump_until([&] { return last == length; }));
  }
}

TEST_CASE("two trunks of one context are independent", "[tcp]") {
  const LeakCheck leaks;
  Side a, b;
  const Bytes handle = b.listen("127.0.0.1");
  Peer& first = a.connect(handle, "first");
  Peer& second = a.connect(handle, "second", 60'000, "127.0.0.1");
  REQUIRE(pump({&a, &b}, [&] {
    return first.up && second.up && b.peers.size() == 2 && b.peers[0]->up && b.peers[1]->up;
  }));
  const size_t first_at = b.hellos[0] == "first" ? 0 : 1;
  Peer& first_end = *b.peers[first_at];
  Peer& second_end = *b.peers[1 - first_at];
  Stream one(a, first, 0, kSizes);
  Stream two(a, second, 5000, kSizes);
  one.push();
  two.push();
  REQUIRE(pump({&a, &b}, [&] {
    one.push_if_writable();
    two.push_if_writable();
    return first_end.frames.size() == one.size() && second_end.frames.size() == two.size() &&
           one.done() && two.done();
  }));
  one.check(first_end);
  two.check(second_end);
  a.close_trunk(first, false);
  REQUIRE(pump({&a, &b}, [&] { return first_end.down; }));
  REQUIRE(first_end.gone == 1);
  REQUIRE_FALSE(second_end.down);
  const Bytes payload = payload_of(9, 99);
  REQUIRE(a.send(second, header_of(9), payload, 9) == TBCCL_OK);
  REQUIRE(pump({&a, &b}, [&] { return second_end.frames.size() == two.size() + 1; }));
}
