// The control plane of one communicator group: how ranks find each other, exchange what they need
// at set-up, and afterwards tell each other about failures. One thread a process serves all of
// them (created with the first, ended with the last). Never carries payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "tbccl/tbccl.h"

namespace tbccl::bootstrap {

// Where to meet. Exactly one of the three is used.
struct MeetingPoint {
  enum class Kind { kUniqueId, kAddress, kExchange } kind = Kind::kAddress;
  tbcclUniqueId id{};
  std::string address;  // host:port, [v6]:port; rank 0 listens there
  tbcclExchangeFn exchange = nullptr;
  void* exchange_context = nullptr;
};

struct PeerRecord {  // answer to a query for call records
  int rank = 0;
  bool answered = false;
  uint64_t number = 0;
  uint64_t fingerprint = 0;
  std::string text;
  std::vector<int> waiting_for;
};

// Called on the control thread; must not block.
class ControlEvents {
 public:
  virtual ~ControlEvents() = default;
  virtual void peer_gone(
      int rank, const Status& cause) = 0;    // its process or host is gone; at most once each
  virtual void peer_finished(int rank) = 0;  // it said goodbye
  virtual void peer_failed(int rank, uint32_t comm,
                           const Status& cause) = 0;  // it broke or aborted this communicator
  virtual PeerRecord record(uint32_t comm) = 0;       // this rank's own record
};

class Control {
 public:
  // Collective; blocks until all ranks have met, or the deadline. Errors name the ranks that are
  // missing, the address, and what to check. Duplicate ranks, differing sizes, versions and wrong
  // secrets are errors on every rank concerned; strangers on the port are dropped unanswered.
  static Status meet(int rank, int size, const MeetingPoint& where, const Settings& settings,
                     uint64_t deadline_ns, ControlEvents* events,
                     std::unique_ptr<Control>* control);
  virtual ~Control() = default;  // closes connections; without goodbye() peers see a failure

  virtual const std::array<uint8_t, 16>& session() const = 0;  // random, equal on all ranks
  virtual const std::string& local_address() const = 0;  // of this host on the rendezvous network
  virtual const std::vector<std::string>& addresses() const = 0;  // of all ranks there

  // Collective, during set-up: every rank's bytes, in rank order. Lengths may differ.
  virtual Status all_gather(const std::string& mine, uint64_t deadline_ns,
                            std::vector<std::string>* all) = 0;

  // Any thread; never blocks. Told to all ranks, over a tree and the ring neighbours, surviving the
  // loss of any one rank.
  virtual void announce_failure(uint32_t comm, const Status& cause) = 0;
  // Asks all ranks for their records of `comm`; `done` is called once, on the control thread,
  // with what has come within `timeout_ns`.
  virtual void query_records(uint32_t comm, uint64_t timeout_ns,
                             std::function<void(std::vector<PeerRecord>)> done) = 0;
  // Says goodbye; blocks until it has been written, and all peers have said theirs, or the
  // deadline.
  virtual Status goodbye(uint64_t deadline_ns) = 0;
  // Any thread; never blocks. A goodbye() that is being waited for, and every later one, returns
  // `cause` (the first one given).
  virtual void interrupt(const Status& cause) = 0;
};

// Starts a listener for tbcclGetUniqueId, in this process.
Status make_unique_id(const Settings& settings, tbcclUniqueId* id);

}  // namespace tbccl::bootstrap
