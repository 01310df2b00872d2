// A schedule's steps, the single iterations of its phases, by number; their well-formedness; and
// which receive meets which send. Shared by the verifier and the simulator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "schedule/schedule.h"

namespace tbccl::schedule {

inline bool is_receive(Kind kind) { return kind == Kind::kRecv || kind == Kind::kRecvReduce; }
inline bool is_message(Kind kind) { return kind == Kind::kSend || is_receive(kind); }

// True where `src` means something: a fold has none if it has no own contribution.
inline bool has_src(const Phase& p) {
  return p.kind != Kind::kRecv && (p.kind != Kind::kFold || p.own >= 0);
}
inline bool has_dst(const Phase& p) { return p.kind != Kind::kSend; }

// Steps of one schedule: those of phase 0, then those of phase 1, ... The schedule must outlive it.
class Steps {
 public:
  explicit Steps(const Schedule& schedule);

  const Schedule& schedule() const { return *schedule_; }
  int32_t count() const { return first_.back(); }
  int32_t phases() const { return static_cast<int32_t>(schedule_->phases.size()); }
  const Phase& phase(int32_t number) const {
    return schedule_->phases[static_cast<size_t>(number)];
  }
  int32_t number(int32_t phase, int32_t iteration) const {
    return first_[static_cast<size_t>(phase)] + iteration;
  }
  int32_t phase_of(int32_t step) const { return phase_of_[static_cast<size_t>(step)]; }
  int32_t iteration_of(int32_t step) const { return step - number(phase_of(step), 0); }

  // Calls f(step, dependency) for every step that `step` depends on.
  template <class F>
  void for_each_dep(int32_t step, F f) const {
    const int32_t iteration = iteration_of(step);
    for (const Dep& dep : phase(phase_of(step)).deps) {
      const int32_t repeat = phase(dep.phase).repeat;
      if (dep.shift == kAllIterations) {
        for (int32_t i = 0; i < repeat; i++) f(number(dep.phase, i), dep);
      } else if (iteration + dep.shift >= 0 && iteration + dep.shift < repeat) {
        f(number(dep.phase, iteration + dep.shift), dep);
      }
    }
  }

  // "rank 2, phase 3 (recv), iteration 0"
  std::string name(int32_t step) const;

 private:
  const Schedule* schedule_;
  std::vector<int32_t> first_;
  std::vector<int16_t> phase_of_;
};

// Numbers in range, operands that exist, dependencies that mean something.
Status check_shape(const Schedule& schedule, const Collective& collective);

// The other end of a message.
struct Meeting {
  int32_t rank = -1;
  int32_t step = -1;
};

// meetings[rank][step], for steps that are no messages {-1, -1}. An error if a send or receive has
// no or several counterparts, or one that covers another number of bytes.
Status match(std::span<const Steps> ranks, std::vector<std::vector<Meeting>>* meetings);

}  // namespace tbccl::schedule
