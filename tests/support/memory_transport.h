// A transport inside one process, for tests: contexts in the same MemoryNetwork reach each other
// by handles. Deterministic; any number of connections; contexts may live on different threads.
//
// Plain use: everything sent arrives at the receiver's next poll(). With `manual` set nothing
// moves until the test moves it, frame by frame or half a frame, and the sender's memory is read
// only then. Faults: connections can be killed, stalled, refused; frames of an unreliable network
// can be lost, duplicated and reordered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tbccl/transport.h"

namespace tbccl::testing {

struct MemoryOptions {
  bool slotted = false;  // else placed
  bool reliable = true;
  bool ordered = true;
  bool descriptors = true;  // a pipe a context becomes readable when there is something to do
  bool manual = false;
  uint32_t max_payload = 1 << 20;
  uint32_t best_payload = 64 * 1024;
  uint32_t queue_frames = 64;  // frames of one direction on their way before TBCCL_AGAIN
  uint32_t chunk = 0;          // placed: progress() at most every so many bytes; 0: whole frames
};

enum class Fault { kNone, kLose, kDuplicate, kReorder, kKill };

class MemoryNetwork {
 public:
  explicit MemoryNetwork(const MemoryOptions& options = {});
  ~MemoryNetwork();  // after all contexts were closed
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  // The vtable to give to the links; at most 16 networks exist at a time.
  const tbcclTransport_t* transport() const;

  // Decides the fate of each frame at send(); called with the network locked. Connections are
  // numbered in the order of connect(); direction 0 goes from the connecting side.
  void set_fault(std::function<Fault(int connection, int direction, const void* header)> fault);
  // While set, connect() ends in down(): with `gone` as given.
  void refuse(bool on, bool gone = true);

  // Connections that are open at both ends, in the order of connect().
  std::vector<int> connections() const;
  size_t queued(int connection, int direction) const;  // frames not yet handed to the receiver
  uint32_t front_length(int connection,
                        int direction) const;         // payload bytes of the next one to move
  void kill(int connection, bool gone = false);       // both ends see down()
  void stall(int connection, bool on);                // nothing moves, nothing fails
  bool movable(int connection, int direction) const;  // move() would find a frame
  // Manual: the next frame travels (whole, or the first half of what is left of its payload).
  // False if there is none.
  bool move(int connection, int direction, bool half = false);
  bool lose(int connection, int direction);       // drops the next frame
  bool duplicate(int connection, int direction);  // the next frame will travel twice
  bool swap(int connection, int direction);       // the next two frames change places

  struct Core;

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace tbccl::testing
