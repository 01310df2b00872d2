// One connection to another rank's context, from its first byte to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/shared_memory.h"
#include "shm/allocations.h"
#include "shm/layout.h"
#include "shm/mail.h"
#include "shm/receiver.h"
#include "shm/sender.h"
#include "shm/socket.h"

namespace tbccl::shm {

struct Trunk {
  enum class State {
    kDoomed,      // connecting failed at once; the next poll says so
    kConnecting,  // the listener's queue is full; tried again
    kGreeting,    // connecting end: hello is being written, the reply is awaited
    kStranger,    // accepting end: the hello is awaited; the link layer does not know of it
    kReplying,    // accepting end: accepted, the reply is being written
    kUp
  };

  State state = State::kConnecting;
  bool closed = false;  // memory is kept until no caller can be inside
  int watched = 0;      // events last given to watch()
  Descriptor socket;
  void* user = nullptr;
  uint64_t deadline = 0;    // of everything before kUp
  uint32_t timeout_ms = 0;  // what the deadline was made of, for messages
  std::string name;         // "shm to process 4711"
  std::string doom;

  // Before kUp.
  std::string target;                // the listener's name
  std::vector<uint8_t> greeting;     // hello or reply being written
  size_t greeted = 0;                // bytes of it that are written
  std::vector<uint8_t> inbox;        // hello or reply as far as it has come
  std::vector<Descriptor> received;  // that came with it

  Peer peer;
  bool same_process = false;
  std::shared_ptr<SharedRegion> mine;
  std::shared_ptr<const SharedRegion> theirs;
  std::shared_ptr<const SharedRegion> their_board;

  Sender sender;
  Receiver receiver;
  Mail mail;
  Allocations allocations;          // the peer's
  std::vector<uint64_t> announced;  // ours, to the peer
  uint32_t rung = 0;                // the peer's sleep (its `asleep`) that has been rung already

  // From acceptance on.
  TrunkRegion& my_region() { return *reinterpret_cast<TrunkRegion*>(mine->data()); }
  const TrunkRegion& their_region() const {
    return *reinterpret_cast<const TrunkRegion*>(theirs->data());
  }
  const Word& their_asleep() const {
    return reinterpret_cast<const BoardRegion*>(their_board->data())->asleep;
  }
};

}  // namespace tbccl::shm
