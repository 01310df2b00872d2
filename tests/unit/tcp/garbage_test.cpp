// Random bytes at every stage of a connection: nothing is delivered that was not sent, nothing is
// left behind. The bytes are the same in every run.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>

#include "rig.h"
#include "tcp/frame.h"
#include "tcp/greeting.h"

using namespace rig;

namespace {

void append(Bytes& to, const Bytes& bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

Bytes frame_of(uint64_t number, uint32_t length) {
  Bytes frame(tbccl::tcp::kHeadBytes);
  tbccl::tcp::encode_head(frame.data(), header_of(number).data(), length);
  append(frame, payload_of(number, length));
  return frame;
}

// Gives the bytes to the listener in random pieces, then ends the stream.
void play(Side& side, const Bytes& handle, const Bytes& bytes, std::mt19937& random) {
  const int socket = stranger(handle);
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t piece = std::min<size_t>(bytes.size() - at, 1 + random() % 9000);
    const ptrdiff_t written = send(socket, bytes.data() + at, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written > 0) at += static_cast<size_t>(written);
    if (written < 0 && errno != EAGAIN) break;  // dropped
    side.poll();
  }
  shutdown(socket, SHUT_WR);
  REQUIRE(pump({&side}, [&] { return ends(socket); }));
  close(socket);
}

}  // namespace

TEST_CASE("random garbage instead of a hello", "[tcp]") {
  const LeakCheck leaks;
  std::mt19937 random(1);
  Side side;
  const Bytes handle = side.listen("127.0.0.1");
  for (int round = 0; round < 40; ++round) {
    Bytes bytes = tbccl::tcp::make_greeting(tbccl::tcp::kHelloMagic, "hello", 5);
    // A right beginning of every length, then noise.
    bytes.resize(static_cast<size_t>(round) % 6);
    for (int i = 0; i < 5000; ++i) bytes.push_back(static_cast<uint8_t>(random() | 0x10));
    play(side, handle, bytes, random);
  }
  REQUIRE(side.hellos.empty());
}

TEST_CASE("random garbage between frames", "[tcp]") {
  const LeakCheck leaks;
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    Side side;
    const Bytes handle = side.listen("127.0.0.1");
    Bytes bytes = tbccl::tcp::make_greeting(tbccl::tcp::kHelloMagic, "hello", 5);
    const int good = static_cast<int>(random() % 4);
    std::vector<uint32_t> lengths;
    for (int i = 0; i < good; ++i) {
      lengths.push_back(static_cast<uint32_t>(random() % 3 == 0 ? 0 : random() % 20'000));
      append(bytes, frame_of(static_cast<uint64_t>(i), lengths.back()));
    }
    const bool clean = round % 5 == 0;
    for (int i = 0; i < 3000 && !clean; ++i) bytes.push_back(static_cast<uint8_t>(random()));
    play(side, handle, bytes, random);
    REQUIRE(side.peers.size() == 1);
    Peer& peer = *side.peers[0];
    REQUIRE(peer.up);
    REQUIRE(peer.down);
    REQUIRE((peer.gone == 1) == clean);
    if (!clean) REQUIRE(peer.text.find("not a frame") != std::string::npos);
    REQUIRE(peer.frames.size() == lengths.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      REQUIRE(peer.frames[i].header == header_of(i));
      REQUIRE(peer.frames[i].payload == payload_of(i, lengths[i]));
    }
  }
}

TEST_CASE("a length beyond the maximum is not believed", "[tcp]") {
  const LeakCheck leaks;
  std::mt19937 random(3);
  Side side;
  const Bytes handle = side.listen("127.0.0.1");
  Bytes bytes = tbccl::tcp::make_greeting(tbccl::tcp::kHelloMagic, "hello", 5);
  Bytes head(tbccl::tcp::kHeadBytes);
  tbccl::tcp::encode_head(head.data(), header_of(1).data(), tbccl::tcp::kMaxPayload + 1);
  append(bytes, head);
  side.on_place = [](Peer&, const void*, uint32_t) -> void* {
    CHECK(false);
    return nullptr;
  };
  play(side, handle, bytes, random);
  REQUIRE(side.peers[0]->down);
  REQUIRE(side.peers[0]->frames.empty());
}
