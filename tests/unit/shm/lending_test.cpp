// Memory that the peer reads itself: shared allocations across processes, anything within one.
#include "shm/lending.h"

#include <atomic>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/shared_memory.h"
#include "rig.h"

using namespace rig;

namespace {

constexpr uint32_t kLarge = 100'000;

// Mappings of a context without trunks, and of one with a trunk to another process: two boards, two
// regions.
#ifdef __linux__
constexpr int kOneTrunk = 4;
#else
constexpr int kOneTrunk = 0;
#endif

// Shared memory with the payloads of frames `first`, `first` + 1, ... one behind the other.
struct Shared {
  uint8_t* memory = nullptr;
  Shared(uint64_t first, uint64_t frames) {
    void* made = nullptr;
    if (!tbccl::allocate_shared(frames * kLarge, &made).ok()) return;
    memory = static_cast<uint8_t*>(made);
    for (uint64_t i = 0; i < frames; ++i) {
      const Bytes payload = payload_of(first + i, kLarge);
      std::memcpy(at(i), payload.data(), payload.size());
    }
  }
  uint8_t* at(uint64_t i) const { return memory + i * kLarge; }
};

}  // namespace

TEST_CASE("frames are delivered straight from a shared allocation of another process", "[shm]") {
  const LeakCheck leaks;
  constexpr uint64_t kFrames = 100;
  Child child([](Child& parent) {
    Side side;
    uint64_t next = 0;
    bool right = true;
    side.on_deliver = [&](Peer&, const void* header, const void* payload, uint32_t length) {
      right = right && length == kLarge && is_frame(next, header, payload, length);
      ++next;
    };
    if (!parent.say(side.listen())) return 1;
    if (!pump({&side}, [&] { return next == kFrames; })) return 2;
    if (!right) return 3;
    if (!pump({&side}, [&] { return side.peers[0]->down; })) return 4;
    side.close();  // what the link layer may still read of a peer stays mapped until then
    return our_mappings() == 0 ? 0 : 5;
  });
  {
    Side side;
    Peer& peer = side.connect(child.hear_handle());
    REQUIRE(pump({&side}, [&] { return peer.up; }));
    const Shared shared(0, kFrames);
    uint64_t next = 0;
    const auto push = [&] {
      while (next < kFrames && side.send(peer, next, shared.at(next), kLarge) == TBCCL_OK) {
        // Not copied: the token comes only when the peer has consumed the frame, and says so.
        ++next;
      }
    };
    side.on_writable = [&](Peer&) { push(); };
    push();
    REQUIRE(next >= 64);  // more where the peer has consumed some already
    REQUIRE(pump({&side}, [&] { return peer.sent.size() == kFrames || peer.down; }));
    REQUIRE_FALSE(peer.down);
    for (uint64_t i = 0; i < kFrames; ++i) REQUIRE(peer.sent[i] == i);
    REQUIRE(tbccl::free_shared(shared.memory).ok());
  }
  REQUIRE(child.wait() == 0);
}

TEST_CASE("freed allocations stay readable until the peer has heard of it", "[shm]") {
  const LeakCheck leaks;
  Child child([](Child& parent) {
    Side side;
    if (!parent.say(side.listen())) return 1;
    if (!pump({&side}, [&] { return side.peers.size() == 1 && side.peers[0]->frames.size() == 1; }))
      return 2;
    Peer& peer = *side.peers[0];
    tbcclReference_t reference;
    std::memcpy(&reference, peer.frames[0].payload.data(), sizeof reference);
    const void* memory = Side::api().reach(side.context(), peer.trunk, &reference, kLarge);
    if (memory == nullptr) return 3;
    uint8_t word = 1;
    if (!parent.say(&word, 1) || !parent.hear(&word, 1)) return 4;
    // The owner has freed it by now.
    const Bytes right = payload_of(5, kLarge);
    if (std::memcmp(memory, right.data(), right.size()) != 0) return 5;
    if (Side::api().reach(side.context(), peer.trunk, &reference, kLarge) != memory) return 6;
    if (Side::api().reach(side.context(), peer.trunk, &reference, kLarge + 1) != nullptr) return 7;
    if (!parent.say(&word, 1)) return 8;
    return pump({&side}, [&] { return peer.down; }) ? 0 : 9;
  });
  {
    Side side;
    Peer& peer = side.connect(child.hear_handle());
    REQUIRE(pump({&side}, [&] { return peer.up; }));
    const Shared shared(4, 3);
    tbcclReference_t reference;
    REQUIRE(Side::api().refer(side.context(), peer.trunk, shared.at(1), kLarge, &reference) ==
            TBCCL_OK);
    const Bytes plain(kLarge);
    tbcclReference_t none;
    REQUIRE(Side::api().refer(side.context(), peer.trunk, plain.data(), kLarge, &none) ==
            TBCCL_FAILED);
    REQUIRE(side.send(peer, 0, reference.bytes, sizeof reference) == TBCCL_OK);
    uint8_t word = 0;
    REQUIRE(child.hear(&word, 1));
    REQUIRE(tbccl::free_shared(shared.memory).ok());
    REQUIRE(child.say(&word, 1));
    REQUIRE(child.hear(&word, 1));
  }
  REQUIRE(child.wait() == 0);
}

TEST_CASE("more allocations than a peer keeps are copied", "[shm]") {
  const LeakCheck leaks;
  constexpr uint64_t kMany = 270;
  Child child([](Child& parent) {
    Side side;
    uint64_t next = 0;
    bool right = true;
    side.on_deliver = [&](Peer&, const void* header, const void* payload, uint32_t length) {
      right = right && length == kLarge && is_frame(next, header, payload, length);
      ++next;
    };
    if (!parent.say(side.listen())) return 1;
    if (!pump({&side}, [&] { return next == kMany; })) return 2;
    if (!right) return 3;
    return pump({&side}, [&] { return side.peers[0]->down; }) ? 0 : 4;
  });
  {
    Side side;
    Peer& peer = side.connect(child.hear_handle());
    REQUIRE(pump({&side}, [&] { return peer.up; }));
    std::vector<Shared> all;
    for (uint64_t i = 0; i < kMany; ++i) {
      all.emplace_back(i, 1);
      tbcclTransportCode_t code = TBCCL_AGAIN;
      REQUIRE(pump({&side}, [&] {
        if (code == TBCCL_AGAIN) code = side.send(peer, i, all[i].at(0), kLarge);
        return code != TBCCL_AGAIN;
      }));
      REQUIRE(code == TBCCL_OK);
    }
    REQUIRE(pump({&side}, [&] { return peer.sent.size() == kMany || peer.down; }));
    REQUIRE_FALSE(peer.down);
    for (const Shared& shared : all) REQUIRE(tbccl::free_shared(shared.memory).ok());
  }
  REQUIRE(child.wait() == 0);
}

TEST_CASE("a peer does not keep what was freed", "[shm]") {
  const LeakCheck leaks;
  constexpr uint64_t kMany = 600;  // more than it would keep
  Child child([](Child& parent) {
    Side side;
    uint64_t next = 0;
    bool right = true;
    side.on_deliver = [&](Peer&, const void* header, const void* payload, uint32_t length) {
      right = right && length == kLarge && is_frame(next, header, payload, length);
      ++next;
    };
    if (!parent.say(side.listen())) return 1;
    if (!pump({&side}, [&] { return next == kMany; })) return 2;
    if (!right) return 3;
    if (!pump({&side}, [] { return our_mappings() == kOneTrunk; })) return 4;
    if (side.send(*side.peers[0], 0, nullptr, 0) != TBCCL_OK) return 5;
    return pump({&side}, [&] { return side.peers[0]->down; }) ? 0 : 6;
  });
  {
    Side side;
    Peer& peer = side.connect(child.hear_handle());
    REQUIRE(pump({&side}, [&] { return peer.up; }));
    int copied = 0;
    for (uint64_t i = 0; i < kMany; ++i) {
      const Shared shared(i, 1);
      REQUIRE(side.send(peer, i, shared.at(0), kLarge) == TBCCL_OK);
      copied += peer.sent.size() == i + 1;
      REQUIRE(pump({&side}, [&] { return peer.sent.size() == i + 1 || peer.down; }));
      REQUIRE(tbccl::free_shared(shared.memory).ok());
      if (i % 100 == 0) {
        // Time for a look at what was freed.
        Side::api().sleeping(side.context(), 1);
        side.poll();
        Side::api().sleeping(side.context(), 0);
      }
    }
    REQUIRE(copied == 0);
    REQUIRE(pump({&side}, [&] { return peer.frames.size() == 1 || peer.down; }));
    REQUIRE_FALSE(peer.down);
  }
  REQUIRE(child.wait() == 0);
}

TEST_CASE("within one process large frames are delivered from the sender's own memory", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes payload = payload_of(3, kLarge);
  const void* delivered = nullptr;
  pair.b.on_deliver = [&](Peer&, const void*, const void* from, uint32_t) { delivered = from; };
  REQUIRE(pair.a.send(*pair.to_b, 3, payload) == TBCCL_OK);
  REQUIRE(pair.to_b->sent.empty());
  REQUIRE(pair.pump_until([&] { return !pair.to_b->sent.empty(); }));
  REQUIRE(delivered == payload.data());
  tbcclReference_t reference;
  REQUIRE(Side::api().refer(pair.a.context(), pair.to_b->trunk, payload.data(), kLarge,
                            &reference) == TBCCL_OK);
  REQUIRE(Side::api().reach(pair.b.context(), pair.to_a->trunk, &reference, kLarge) ==
          payload.data());
  REQUIRE(Side::api().reach(pair.b.context(), pair.to_a->trunk, &reference, kLarge + 1) == nullptr);
}

TEST_CASE("close_trunk waits until the other thread has left the memory", "[shm]") {
  const LeakCheck leaks;
  for (int round = 0; round < 30; ++round) {
    Pair pair;
    Bytes payload = payload_of(3, kLarge);
    std::atomic<bool> inside{false};
    bool right = true;
    pair.b.on_deliver = [&](Peer&, const void* header, const void* from, uint32_t length) {
      inside = true;
      for (int i = 0; i < 20; ++i) std::this_thread::yield();
      right = is_frame(3, header, from, length);
    };
    REQUIRE(pair.a.send(*pair.to_b, 3, payload) == TBCCL_OK);
    const bool wait = round % 2 == 0;  // otherwise the two are wherever they are
    std::thread reader([&] { pump({&pair.b}, [&] { return pair.to_a->down; }); });
    while (wait && !inside) std::this_thread::yield();
    pair.a.close_trunk(*pair.to_b);
    // The memory is ours again.
    for (auto& byte : payload) byte = 0;
    reader.join();
    REQUIRE(right);
    REQUIRE(pair.to_a->gone == 1);
    REQUIRE(pair.to_b->sent.empty());
  }
}

TEST_CASE("both ends close from inside deliver(), and neither waits for the other", "[shm]") {
  const LeakCheck leaks;
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    const Bytes payload = payload_of(3, kLarge);
    std::atomic<int> inside{0};
    const auto meet_and_close = [&](Side& side) {
      return [&](Peer& peer, const void*, const void*, uint32_t) {
        ++inside;
        while (inside < 2) std::this_thread::yield();
        side.close_trunk(peer);
      };
    };
    pair.a.on_deliver = meet_and_close(pair.a);
    pair.b.on_deliver = meet_and_close(pair.b);
    REQUIRE(pair.a.send(*pair.to_b, 3, payload) == TBCCL_OK);
    REQUIRE(pair.b.send(*pair.to_a, 3, payload) == TBCCL_OK);
    std::thread other([&] { pump({&pair.b}, [&] { return inside == 2; }); });
    pump({&pair.a}, [&] { return inside == 2; });
    other.join();
    REQUIRE(inside == 2);
    REQUIRE_FALSE(pair.to_a->down);
    REQUIRE_FALSE(pair.to_b->down);
  }
}

TEST_CASE("one thread may close the sending end from inside the receiving end's deliver()",
          "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  const Bytes payload = payload_of(3, kLarge);
  int delivered = 0;
  pair.b.on_deliver = [&](Peer&, const void*, const void*, uint32_t) {
    ++delivered;
    pair.a.close_trunk(*pair.to_b);
  };
  for (uint64_t i = 0; i < 3; ++i) REQUIRE(pair.a.send(*pair.to_b, i, payload) == TBCCL_OK);
  REQUIRE(pair.pump_until([&] { return pair.to_a->down; }));
  REQUIRE(delivered == 1);
  REQUIRE(pair.to_a->gone == 1);
}

TEST_CASE("who closes waits for a reader, and not for ever", "[shm]") {
  const auto owner = std::make_unique<tbccl::shm::TrunkRegion>();
  const auto reader = std::make_unique<tbccl::shm::TrunkRegion>();
  constexpr uint64_t kLong = 60'000'000'000, kShort = 5'000'000;
  const uint64_t deadline = tbccl::now_ns() + kLong;
  const auto until = [deadline](const auto& condition) {
    while (!condition() && tbccl::now_ns() < deadline) std::this_thread::yield();
    return condition();
  };
  SECTION("the reader leaves") {
    std::atomic<bool> inside{false}, left{false};
    std::thread reading([&] {
      const tbccl::shm::Reading now(*reader, *owner);
      inside = now.allowed();
      left = until([&] { return owner->closed.load() != 0; });
    });
    const bool began = until([&] { return inside.load(); });
    const bool ended = tbccl::shm::end_lending(*owner, *reader, kLong);
    const bool first = left;
    reading.join();
    REQUIRE(began);
    REQUIRE(ended);
    REQUIRE(first);
  }
  SECTION("the reader's process has ended in the middle") {
    reader->reading.store(1);
    REQUIRE_FALSE(tbccl::shm::end_lending(*owner, *reader, kShort));
  }
  SECTION("after it nothing may be read") {
    REQUIRE(tbccl::shm::end_lending(*owner, *reader, kShort));
    const tbccl::shm::Reading late(*reader, *owner);
    REQUIRE_FALSE(late.allowed());
  }
}
