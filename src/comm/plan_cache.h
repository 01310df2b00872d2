// The plans of one communicator: which algorithm a call takes, and the schedule for it, made once
// and shared by all calls that are alike. Bounded: the oldest plans go first; calls in progress
// keep theirs alive.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "schedule/basis.h"
#include "schedule/schedule.h"
#include "selection/selection.h"

namespace tbccl::comm {

class PlanCache {
 public:
  PlanCache(const schedule::Basis& basis, int rank);

  // Any thread. The same answer on every rank for equal questions (but for in_place, which is a
  // rank's own affair and does not change the messages).
  Status find(const selection::Question& question, std::shared_ptr<const engine::Plan>* plan);

 private:
  struct Choice {  // an exact question and its answer
    selection::Question question;
    std::shared_ptr<const engine::Plan> plan;
  };
  static constexpr size_t kChoices = 64;  // direct-mapped
  static constexpr size_t kPlans = 64;

  Status make(const selection::Question& question, std::shared_ptr<const engine::Plan>* plan);

  const schedule::Basis& basis_;
  const int rank_;
  std::mutex lock_;
  std::array<Choice, kChoices> choices_;
  struct Made {
    std::string algorithm;
    schedule::Collective collective;
    std::shared_ptr<const engine::Plan> plan;
  };
  std::vector<Made> plans_;  // oldest first
};

}  // namespace tbccl::comm
