// One rank on its way through a plan.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exercise.h"
#include "plan.h"

namespace soak {

// What is said about a failure, and where each rank is, for whoever watches.
struct Story {
  uint64_t seed = 0;
  int epoch = 0;
  std::string setting;  // ranks, transports
};

[[noreturn]] void fail(const Story& story, int rank, int step, const std::string& text);

// An operation that was submitted, until it has been found right. Not moved: the library knows
// where its flag and its count of callbacks are.
struct Pending {
  Pending(const Call& call, tbcclComm_t comm, int rank, Role role)
      : exercise(call, comm, rank, role) {}
  Exercise exercise;
  tbcclRequest_t request = TBCCL_REQUEST_NULL;
  std::atomic<int> callbacks{0};
  std::atomic<int> bad_result{tbcclSuccess};
  int wanted_callbacks = 0;
  bool calls_back = false;
  bool in_progress = false;
  alignas(4) volatile uint32_t flag = 0;
};

class Rank {
 public:
  Rank(const Story& story, int rank, int ranks, tbcclComm_t world, uint64_t seed);

  // Ends with every communicator destroyed. Any failure ends the process.
  void run(int steps);
  int step() const { return step_.load(std::memory_order_relaxed); }

 private:
  using Owned = std::unique_ptr<Pending>;
  using Queue = std::vector<Owned>;

  void act(Step& step);
  void run_blocking(const Step& step);
  void run_batch(const Step& step);
  void run_group(const Step& step);
  void run_threads(const Step& step);
  void make_persistent(const Step& step);
  void start_persistent(const Step& step);
  void free_persistent(size_t number);
  void split(const Step& step);
  void destroy(int slot);
  void drain();

  Queue prepare(const Call& call);
  std::vector<Queue> prepare_by_slot(const std::vector<Call>& calls);
  void submit(Pending& pending, bool with_request, bool in_group);
  void complete(Pending& pending);
  void wait(Pending& pending);
  void await_callbacks(Pending& pending);
  void check(Pending& pending);
  void check_source(Pending& pending);
  void complete_slot(int slot);

  tbcclComm_t comm(int slot) const { return comms_[static_cast<size_t>(slot)]; }
  void require(tbcclResult_t result, tbcclComm_t comm, const std::string& what);
  [[noreturn]] void failed(const std::string& text) { fail(story_, rank_, step(), text); }

  const Story& story_;
  const int rank_;
  Plan plan_;
  Draw own_;                        // what this rank decides for itself
  std::vector<tbcclComm_t> comms_;  // of each slot; NULL where this rank is no member
  std::deque<Owned> outstanding_;
  std::vector<Queue> persistent_;        // by number, one for each role
  std::set<std::pair<int, int>> taken_;  // tag and source of receives from anybody
  std::atomic<int> step_{0};
};

}  // namespace soak
