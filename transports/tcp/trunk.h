// One connection, from its first byte to its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "tcp/receiver.h"
#include "tcp/sender.h"
#include "tcp/silence.h"

namespace tbccl::tcp {

struct Trunk {
  enum class State {
    kDoomed,      // connecting failed at once; the next poll says so
    kConnecting,  // until the kernel has a connection
    kGreeting,    // connecting side: hello is being written, the reply is awaited
    kStranger,    // accepting side: the hello is awaited; the link layer does not know of it
    kReplying,    // accepting side: accepted, the reply is being written
    kUp
  };

  State state = State::kConnecting;
  bool closed = false;  // memory is kept until no caller can be inside
  int watched = 0;      // events last given to watch()
  Descriptor socket;
  void* user = nullptr;
  uint64_t deadline = 0;          // of everything before kUp
  uint32_t timeout_ms = 0;        // what the deadline was made of, for messages
  std::vector<uint8_t> greeting;  // hello or reply being written
  size_t greeted = 0;             // bytes of it that are written
  std::string name;               // "tcp 10.0.0.1:40000 to 10.0.0.2:50000"
  std::string doom;
  Silence silence;
  Sender sender;
  Receiver receiver;
};

}  // namespace tbccl::tcp
