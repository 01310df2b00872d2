#include "raw.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>

namespace rig {

using namespace tbccl;

Descriptor stranger(const Bytes& handle) {
  std::string name, error;
  REQUIRE(shm::decode_handle(handle.data(), handle.size(), &name, &error));
  Descriptor socket = shm::make_socket();
  REQUIRE(shm::connect_to(socket.get(), name) == 0);
  return socket;
}

bool ends(const Descriptor& socket) {
  for (;;) {
    pollfd entry{socket.get(), POLLIN, 0};
    if (poll(&entry, 1, 0) == 0) return false;
    char bytes[4096];
    if (recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT) <= 0) return true;
  }
}

bool say(const Descriptor& socket, const void* data, size_t bytes,
         const std::vector<int>& descriptors) {
  return shm::send_bytes(socket.get(), data, bytes, descriptors.data(),
                         static_cast<int>(descriptors.size())) == static_cast<ptrdiff_t>(bytes);
}

Bytes foreign_greeting(uint32_t magic, const std::string& content) {
  Bytes greeting = shm::make_greeting(magic, 1, 2, content.data(), content.size());
  greeting[offsetof(shm::GreetingPrefix, token)] ^= 0xff;
  return greeting;
}

Descriptor loose_memory(size_t bytes) {
#ifdef __linux__
  Descriptor memory(memfd_create("tbccl-loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0);
  return memory;
#else
  std::shared_ptr<SharedRegion> region;
  REQUIRE(SharedRegion::create(bytes, &region).ok());
  return Descriptor(dup(region->descriptor().get()));
#endif
}

RawPeer::RawPeer() {
  REQUIRE(SharedRegion::create(shm::kBoardRegionBytes, &board).ok());
  REQUIRE(SharedRegion::create(shm::kTrunkRegionBytes, &trunk).ok());
}

Peer& RawPeer::meet(Side& side) {
  socket = stranger(side.listen());
  const Bytes hello = foreign_greeting(shm::kHelloMagic, "raw");
  REQUIRE(say(socket, hello.data(), hello.size(),
              {board->descriptor().get(), trunk->descriptor().get()}));
  const size_t before = side.peers.size();
  REQUIRE(pump({&side}, [&] { return side.peers.size() > before && side.peers.back()->up; }));
  return *side.peers.back();
}

shm::Entry& RawPeer::entry() { return region().entries[published % shm::kEntries]; }

void RawPeer::publish(shm::Where where, uint32_t offset, uint32_t length) {
  entry().where = static_cast<uint32_t>(where);
  entry().offset = offset;
  entry().length = length;
  publish();
}

void RawPeer::publish(const shm::Reference& reference, uint32_t length) {
  const tbcclReference_t packed = shm::pack(reference);
  std::memcpy(entry().inside, &packed, sizeof packed);
  publish(shm::Where::kReferred, 0, length);
}

}  // namespace rig
