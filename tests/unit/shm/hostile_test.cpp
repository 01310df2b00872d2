// Peers that say or publish what makes no sense: nothing of it is delivered, nothing is read
// outside the regions, nothing is left behind, and the others are not disturbed.
#include <fcntl.h>
#include <unistd.h>

#include <random>
#include <string>

#include "raw.h"
#include "shm/allocations.h"

using namespace rig;
using namespace tbccl;
using shm::Reference;
using shm::Where;

namespace {

constexpr uint32_t kLarge = 100'000;

// The announcement of an allocation, as `mail` writes it.
Bytes announcement(uint64_t id, uint64_t bytes) {
  Bytes message(17, 'a');
  std::memcpy(message.data() + 1, &id, sizeof id);
  std::memcpy(message.data() + 9, &bytes, sizeof bytes);
  return message;
}

struct Hostile {
  LeakCheck leaks;
  Side side;
  RawPeer raw;
  Peer* peer = nullptr;
  int delivered = 0;
  Hostile() {
    side.on_deliver = [this](Peer&, const void*, const void*, uint32_t) { ++delivered; };
    peer = &raw.meet(side);
  }
  void announce(uint64_t id, uint64_t bytes, int descriptor) {
    const Bytes message = announcement(id, bytes);
    REQUIRE(say(raw.socket, message.data(), message.size(), {descriptor}));
  }
  // The trunk goes down for a reason with these words, and not because the peer is gone.
  void ends_with(const std::string& words) {
    REQUIRE(pump({&side}, [&] { return peer->down; }));
    INFO(peer->text);
    REQUIRE(peer->gone == 0);
    REQUIRE(peer->text.find(words) != std::string::npos);
    REQUIRE(side.wrong.empty());
  }
};

}  // namespace

TEST_CASE("a peer made by hand can speak", "[shm]") {
  Hostile h;
  h.raw.publish(Where::kInside, 0, shm::kInlineBytes);
  h.raw.publish(Where::kRing, 0, shm::kMaxPayload);
  h.raw.publish(Where::kRing, shm::kRingBytes - 1000, 1000);
  std::shared_ptr<SharedRegion> memory;
  REQUIRE(SharedRegion::create(kLarge, &memory).ok());
  h.announce(7, kLarge, memory->descriptor().get());
  h.raw.publish({Reference::Kind::kAllocation, 0, 7, 1, kLarge - 1}, kLarge - 1);
  REQUIRE(pump({&h.side}, [&] { return h.delivered == 4 || h.peer->down; }));
  REQUIRE_FALSE(h.peer->down);
  REQUIRE(h.side.hellos == std::vector<std::string>{"raw"});
}

TEST_CASE("entries that make no sense end the trunk", "[shm]") {
  Hostile h;
  SECTION("longer than an entry") { h.raw.publish(Where::kInside, 0, shm::kInlineBytes + 1); }
  SECTION("longer than a frame") { h.raw.publish(Where::kRing, 0, shm::kMaxPayload + 1); }
  SECTION("longest length") { h.raw.publish(Where::kRing, 0, UINT32_MAX); }
  SECTION("beyond the ring") { h.raw.publish(Where::kRing, shm::kRingBytes - 999, 1000); }
  SECTION("far beyond the ring") { h.raw.publish(Where::kRing, UINT32_MAX - 10, 100); }
  SECTION("an unknown place") { h.raw.publish(static_cast<Where>(3), 0, 10); }
  SECTION("an empty reference") { h.raw.publish(Where::kReferred, 0, 0); }
  h.ends_with("not a frame");
  REQUIRE(h.delivered == 0);
}

TEST_CASE("sequences that are not the next are not frames", "[shm]") {
  Hostile h;
  for (const uint32_t sequence : {2u, 64u, 65u, UINT32_MAX}) {
    h.raw.entry().sequence = sequence;
    for (int i = 0; i < 50; ++i) h.side.poll();
    REQUIRE_FALSE(h.peer->down);
  }
  REQUIRE(h.delivered == 0);
}

TEST_CASE("references that make no sense end the trunk", "[shm]") {
  Hostile h;
  std::shared_ptr<SharedRegion> memory;
  REQUIRE(SharedRegion::create(kLarge, &memory).ok());
  h.announce(7, kLarge, memory->descriptor().get());
  const auto allocation = Reference::Kind::kAllocation;
  SECTION("never announced") {
    h.raw.publish({allocation, 0, 8, 0, kLarge}, kLarge);
    h.ends_with("never announced");
  }
  SECTION("beyond the end") {
    h.raw.publish({allocation, 0, 7, 1, kLarge}, kLarge);
    h.ends_with("of an allocation of");
  }
  SECTION("around the end of all memory") {
    h.raw.publish({allocation, 0, 7, UINT64_MAX - 5, kLarge}, kLarge);
    h.ends_with("of an allocation of");
  }
  SECTION("more than it covers") {
    h.raw.publish({allocation, 0, 7, 0, 10}, 11);
    h.ends_with("the peer names 10 bytes for 11");
  }
  SECTION("own memory of another process") {
    h.raw.publish({Reference::Kind::kOwnMemory, 0, shm::half_of(process_token()),
                   reinterpret_cast<uintptr_t>(&h), 10},
                  10);
    h.ends_with("not of this process");
  }
  SECTION("an unknown kind") {
    h.raw.publish({static_cast<Reference::Kind>(9), 0, 7, 0, 10}, 10);
    h.ends_with("not known here");
  }
  REQUIRE(h.delivered == 0);
}

TEST_CASE("reach() believes nothing, and the trunk lives on", "[shm]") {
  Hostile h;
  const auto reach = [&](const Reference& reference, size_t bytes) {
    const tbcclReference_t packed = shm::pack(reference);
    return Side::api().reach(h.side.context(), h.peer->trunk, &packed, bytes);
  };
  std::shared_ptr<SharedRegion> memory;
  REQUIRE(SharedRegion::create(kLarge, &memory).ok());
  memory->data()[5] = std::byte{77};
  h.announce(7, kLarge, memory->descriptor().get());
  const auto allocation = Reference::Kind::kAllocation;
  REQUIRE(reach({allocation, 0, 8, 0, 10}, 10) == nullptr);
  REQUIRE(reach({allocation, 0, 7, kLarge, 1}, 1) == nullptr);
  REQUIRE(reach({allocation, 0, 7, 0, UINT64_MAX}, SIZE_MAX) == nullptr);
  REQUIRE(reach({Reference::Kind::kOwnMemory, 0, 0, 0x1000, 10}, 10) == nullptr);
  REQUIRE(reach({static_cast<Reference::Kind>(0), 0, 7, 0, 10}, 10) == nullptr);
  const auto* byte = static_cast<const uint8_t*>(reach({allocation, 0, 7, 5, 1}, 1));
  REQUIRE(byte != nullptr);
  REQUIRE(*byte == 77);
  REQUIRE(h.side.logged.size() == 5);
  REQUIRE_FALSE(h.peer->down);
}

TEST_CASE("a counter of what was read that makes no sense ends the trunk", "[shm]") {
  Hostile h;
  const Bytes payload = payload_of(1, 20'000);
  REQUIRE(h.side.send(*h.peer, 1, payload) == TBCCL_OK);
  h.raw.region().consumed = GENERATE(as<uint32_t>{}, 65, 1u << 31, UINT32_MAX);
  bool failed = false;
  for (uint64_t i = 2; i < 200 && !failed; ++i) {
    failed = h.side.send(*h.peer, i, payload) == TBCCL_FAILED;
    h.side.poll();
  }
  h.ends_with("never sent");
}

TEST_CASE("mail that makes no sense ends the trunk", "[shm]") {
  Hostile h;
  std::shared_ptr<SharedRegion> memory;
  REQUIRE(SharedRegion::create(kLarge, &memory).ok());
  const int descriptor = memory->descriptor().get();
  SECTION("garbage") {
    REQUIRE(say(h.raw.socket, "xyz", 3));
    h.ends_with("makes no sense");
  }
  SECTION("garbage behind rings") {
    REQUIRE(say(h.raw.socket, "rrrrq", 5));
    h.ends_with("makes no sense");
  }
  SECTION("an announcement without a descriptor") {
    const Bytes message = announcement(7, kLarge);
    REQUIRE(say(h.raw.socket, message.data(), message.size()));
    h.ends_with("makes no sense");
  }
  SECTION("the same one twice") {
    h.announce(7, kLarge, descriptor);
    h.announce(7, kLarge, descriptor);
    h.ends_with("makes no sense");
  }
  SECTION("a descriptor that nobody announced") {
    REQUIRE(say(h.raw.socket, "r", 1, {descriptor}));
    h.ends_with("makes no sense");
  }
  SECTION("two descriptors for one") {
    const Bytes message = announcement(7, kLarge);
    REQUIRE(say(h.raw.socket, message.data(), message.size(), {descriptor, descriptor}));
    h.ends_with("makes no sense");
  }
  SECTION("forgetting what was never announced") {
    const Bytes message(9, 'f');
    REQUIRE(say(h.raw.socket, message.data(), message.size()));
    h.ends_with("makes no sense");
  }
  SECTION("too many") {
    for (uint64_t id = 1; id <= shm::kMaxAllocations + 1; ++id) {
      h.announce(id, kLarge, descriptor);
      h.side.poll();
    }
    h.ends_with("makes no sense");
  }
  SECTION("an announcement in two pieces is right") {
    const Bytes message = announcement(7, kLarge);
    REQUIRE(say(h.raw.socket, message.data(), 5, {descriptor}));
    for (int i = 0; i < 1000; ++i) h.side.poll();
    REQUIRE(say(h.raw.socket, message.data() + 5, message.size() - 5));
    h.raw.publish({Reference::Kind::kAllocation, 0, 7, 0, kLarge}, kLarge);
    REQUIRE(pump({&h.side}, [&] { return h.delivered == 1 || h.peer->down; }));
    REQUIRE_FALSE(h.peer->down);
  }
}

TEST_CASE("allocations that are less than announced, or could shrink, are not read", "[shm]") {
  Hostile h;
  SECTION("short") {
    std::shared_ptr<SharedRegion> memory;
    REQUIRE(SharedRegion::create(kLarge, &memory).ok());
    h.announce(7, 10u << 20, memory->descriptor().get());
    h.raw.publish({Reference::Kind::kAllocation, 0, 7, 5u << 20, 1000}, 1000);
    h.ends_with("instead of");
  }
  SECTION("not memory at all") {
    const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    h.announce(7, kLarge, null.get());
    h.raw.publish({Reference::Kind::kAllocation, 0, 7, 0, 1000}, 1000);
    h.ends_with("instead of");
  }
#ifdef __linux__
  SECTION("not sealed") {
    const Descriptor memory = loose_memory(kLarge);
    h.announce(7, kLarge, memory.get());
    h.raw.publish({Reference::Kind::kAllocation, 0, 7, 0, 1000}, 1000);
    h.ends_with("not sealed");
  }
#endif
  REQUIRE(h.delivered == 0);
}

TEST_CASE("a hello without the right memory is told to the link layer as a failure", "[shm]") {
  const LeakCheck leaks;
  Side side;
  RawPeer raw;
  const Bytes hello = foreign_greeting(shm::kHelloMagic, "raw");
  std::string words = "instead of";
  std::vector<int> given{raw.board->descriptor().get(), raw.trunk->descriptor().get()};
  Descriptor other;
  SECTION("none") {
    given.clear();
    words = "no memory";
  }
  SECTION("one") {
    given.pop_back();
    words = "no memory";
  }
  SECTION("the wrong way round") { std::swap(given[0], given[1]); }
  SECTION("not memory") {
    other = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
    given[1] = other.get();
  }
#ifdef __linux__
  SECTION("not sealed") {
    other = loose_memory(shm::kTrunkRegionBytes);
    given[1] = other.get();
    words = "not sealed";
  }
#endif
  raw.socket = stranger(side.listen());
  REQUIRE(say(raw.socket, hello.data(), hello.size(), given));
  REQUIRE(pump({&side}, [&] { return !side.peers.empty() && side.peers[0]->down; }));
  INFO(side.peers[0]->text);
  REQUIRE_FALSE(side.peers[0]->up);
  REQUIRE(side.peers[0]->gone == 0);
  REQUIRE(side.peers[0]->text.find(words) != std::string::npos);
  REQUIRE(pump({&side}, [&] { return ends(raw.socket); }));
}

TEST_CASE("a hello with a descriptor at every byte is dropped", "[shm]") {
  const LeakCheck leaks;
  Side side;
  const Descriptor socket = stranger(side.listen());
  const Bytes hello = foreign_greeting(shm::kHelloMagic, "raw");
  for (size_t i = 0; i < 5; ++i) {
    if (!say(socket, hello.data() + i, 1, {socket.get(), socket.get()})) break;
    for (int k = 0; k < 100; ++k) side.poll();
  }
  REQUIRE(pump({&side}, [&] { return ends(socket); }));
  REQUIRE(side.hellos.empty());
}

TEST_CASE("random garbage instead of a hello", "[shm]") {
  const LeakCheck leaks;
  std::mt19937 random(1);
  Side side;
  const Bytes handle = side.listen();
  for (size_t round = 0; round < 60; ++round) {
    Bytes bytes = foreign_greeting(shm::kHelloMagic, "hello");
    // A right beginning of every length before the token, then noise.
    bytes.resize(round % 8);
    for (int i = 0; i < 3000; ++i) bytes.push_back(static_cast<uint8_t>(random() | 0x20));
    const Descriptor socket = stranger(handle);
    say(socket, bytes.data(), bytes.size());
    REQUIRE(pump({&side}, [&] { return ends(socket); }));
  }
  REQUIRE(side.hellos.empty());
}

TEST_CASE("random words in the region never make a reader leave it", "[shm]") {
  const LeakCheck leaks;
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    Side side;
    uint64_t sum = 0;
    side.on_deliver = [&](Peer&, const void*, const void* payload, uint32_t length) {
      const auto* bytes = static_cast<const uint8_t*>(payload);
      for (uint32_t i = 0; i < length; i += 512) sum += bytes[i];
      if (length > 0) sum += bytes[length - 1];
    };
    RawPeer raw;
    Peer& peer = raw.meet(side);
    for (int i = 0; i < 300 && !peer.down; ++i) {
      for (auto& byte : raw.entry().inside) byte = static_cast<uint8_t>(random());
      const auto where = static_cast<Where>(random() % 2 + (random() % 40 == 0 ? 2 : 0));
      const uint32_t mask = (2u << (random() % 20)) - 1;
      raw.publish(where, random() % shm::kRingBytes, static_cast<uint32_t>(random()) & mask);
      side.poll();
    }
    REQUIRE(side.wrong.empty());
    REQUIRE(peer.down);
    REQUIRE(peer.gone == 0);
  }
}
