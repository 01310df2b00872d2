// The inside of MemoryNetwork, shared by its two sources.
#pragma once

#include <array>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "support/memory_transport.h"

namespace tbccl::testing {

struct Connection;

struct Frame {
  std::array<std::byte, TBCCL_FRAME_HEADER_BYTES> header{};
  const std::byte* source = nullptr;  // the sender's memory, until moved == length
  std::vector<std::byte> payload;     // what has travelled
  uint32_t length = 0;
  uint32_t moved = 0;
  bool header_moved = false;
  bool owes_sent = true;  // sent(token) must be reported
  uint64_t token = 0;

  bool whole() const { return header_moved && moved == length; }
};

struct Event {
  enum class Kind { kUp, kDown, kSent, kWritable } kind;
  Connection* connection;
  int side;
  int gone = 0;
  std::string text{};
  uint64_t token = 0;
  std::vector<std::byte> reply{};
};

}  // namespace tbccl::testing

// One end of a connection; the handle that the links hold.
struct tbcclTrunk {
  tbccl::testing::Connection* connection = nullptr;
  int side = 0;
  tbcclTransportContext* context = nullptr;
  void* user = nullptr;
  bool open = false;
  bool blocked = false;  // a send was answered with TBCCL_AGAIN
  // Receiving: the frame at the front of the incoming queue.
  bool placed = false;
  bool discard = false;
  std::byte* destination = nullptr;
  uint32_t consumed = 0;
  uint64_t serial = 0;  // changes with every frame that has been handed over
};

struct tbcclTransportContext {
  tbccl::testing::MemoryNetwork::Core* core = nullptr;
  tbcclTransportCallbacks_t callbacks{};
  uint32_t number = 0;
  bool listening = false;
  int wake[2] = {-1, -1};
  std::deque<tbccl::testing::Event> events;
};

namespace tbccl::testing {

struct Connection {
  int number = 0;
  std::array<tbcclTrunk, 2> ends;  // 0 connects, 1 accepts
  std::array<std::deque<Frame>, 2> queues;
  std::vector<std::byte> hello;
  bool awaits_accept = true;
  bool established = false;
  bool stalled = false;
  bool dead = false;  // killed; down() is on its way
  // A down() that waits until the frames written before it have been read.
  std::array<bool, 2> closing = {false, false};
  std::array<int, 2> closing_gone = {0, 0};
};

struct MemoryNetwork::Core {
  mutable std::mutex mutex;
  MemoryOptions options;
  std::function<Fault(int, int, const void*)> fault;
  bool refuse = false;
  bool refuse_gone = true;
  int slot = -1;
  uint32_t next_context = 1;
  std::vector<tbcclTransportContext*> contexts;
  std::vector<std::unique_ptr<Connection>> all;

  void wake(tbcclTransportContext* context) const;
  Connection* find(int number) const;
  void push(tbcclTransportContext* context, Event event) const;
  void move_bytes(Connection& c, int direction, Frame& frame, uint32_t bytes) const;
  Frame* next_to_move(Connection& c, int direction) const;
  void end(Connection& c, int side, int gone, const char* text) const;
  bool poll_end(Connection& c, int side);
};

// Vtables cannot carry a pointer to their network: there is one for each of a few slots.
int register_network(MemoryNetwork::Core* core);  // -1: all are taken
void forget_network(int slot);
const tbcclTransport_t* vtable_of(int slot);

}  // namespace tbccl::testing
