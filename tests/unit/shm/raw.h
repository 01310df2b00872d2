// A peer that says and publishes whatever the test wants, by the formats of the transport.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/shared_memory.h"
#include "rig.h"
#include "shm/greeting.h"
#include "shm/layout.h"
#include "shm/reference.h"
#include "shm/socket.h"

namespace rig {

// A connection to a listener's handle that has said nothing yet.
tbccl::Descriptor stranger(const Bytes& handle);
// Reads until the end of the stream; true if it came to an end.
bool ends(const tbccl::Descriptor& socket);
bool say(const tbccl::Descriptor& socket, const void* data, size_t bytes,
         const std::vector<int>& descriptors = {});

// A greeting as another process would send it.
Bytes foreign_greeting(uint32_t magic, const std::string& content);

// Memory of `bytes`, as SharedRegion makes it or without seals.
tbccl::Descriptor loose_memory(size_t bytes);

struct RawPeer {
  std::shared_ptr<tbccl::SharedRegion> board;
  std::shared_ptr<tbccl::SharedRegion> trunk;
  tbccl::Descriptor socket;
  uint32_t published = 0;

  RawPeer();
  tbccl::shm::TrunkRegion& region() {
    return *reinterpret_cast<tbccl::shm::TrunkRegion*>(trunk->data());
  }
  // Connects to `side` and says a right hello; the side's end is its newest peer, and up.
  Peer& meet(Side& side);
  // The next entry, to be filled; publish() makes it seen.
  tbccl::shm::Entry& entry();
  void publish() { entry().sequence.store(++published); }
  void publish(tbccl::shm::Where where, uint32_t offset, uint32_t length);
  void publish(const tbccl::shm::Reference& reference, uint32_t length);
};

}  // namespace rig
