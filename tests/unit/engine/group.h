// Ranks of one job as lanes in one process, over the memory transport, TCP on loopback, or
// shared memory with a board.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "support/memory_transport.h"

namespace tbccl::testing {

// What a lane told the control plane.
class Events final : public engine::LaneEvents {
 public:
  void broken(uint32_t comm, const Status& cause) override;
  void stalled(uint32_t comm, const engine::CallRecord& record) override;
  int broken_count(uint32_t comm) const;
  std::vector<engine::CallRecord> stalls() const;

 private:
  mutable std::mutex mutex_;
  std::map<uint32_t, int> broken_;
  std::vector<engine::CallRecord> stalls_;
};

enum class Wire { kMemory, kTcp, kShared };

struct GroupOptions {
  int size = 2;
  Wire wire = Wire::kMemory;
  int channels = 1;
  int trunks = 1;  // of each pair
  MemoryOptions memory = {};
};

class Group {
 public:
  explicit Group(const GroupOptions& options);
  ~Group();

  int size() const { return static_cast<int>(lanes_.size()); }
  engine::Lane& lane(int rank) { return *lanes_[rank]; }
  engine::Channel* channel(int rank, int number = 0) { return channels_[rank][number]; }
  Events& events(int rank) { return *events_[rank]; }
  MemoryNetwork* network() { return network_.get(); }
  // Whether the channels share a board (Wire::kShared).
  bool on_board() const { return on_board_; }
  // Ends a rank as if its process had died.
  void drop(int rank);

  // f(rank) on a thread of its own for each rank; waits for all.
  void each(const std::function<void(int)>& f);

 private:
  std::unique_ptr<MemoryNetwork> network_;
  std::vector<std::unique_ptr<Events>> events_;
  std::vector<std::unique_ptr<engine::Lane>> lanes_;
  std::vector<std::vector<engine::Channel*>> channels_;
  bool on_board_ = false;
};

// A plan of the named algorithm; all-reduce unless another operation is given.
std::shared_ptr<const engine::Plan> make_plan(const std::string& algorithm,
                                              const schedule::Collective& collective, int rank,
                                              int size);

// An all-reduce call with everything set.
engine::Call all_reduce(const std::shared_ptr<const engine::Plan>& plan, const void* input,
                        void* output, uint64_t count, tbcclDataType_t type = tbcclFloat32,
                        tbcclRedOp_t op = tbcclSum);
engine::Call send_call(const void* data, uint64_t bytes, int peer, int tag);
engine::Call recv_call(void* data, uint64_t bytes, int peer, int tag);

// Waits, bounded, for something another thread does.
bool eventually(const std::function<bool()>& condition, int seconds = 20);

int threads_of_process();
int descriptors_of_process();

}  // namespace tbccl::testing
