// A plan prepared for execution: windows, dependents, and piece offsets of one count. Rebuilt only
// when plan, count or type change, with memory that is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace tbccl::engine {

// Iterations of a phase that may be active at once.
inline constexpr int32_t kWindow = 16;
// Length of a scratch slot that is used as a ring.
inline constexpr uint64_t kSlotWindowBytes = 1 << 20;

class Program {
 public:
  // `blocks` nullptr: each of `count` elements.
  void prepare(const std::shared_ptr<const Plan>& plan, uint64_t count,
               const std::shared_ptr<const Blocks>& blocks, uint32_t element);

  const schedule::Schedule& schedule() const { return plan_->schedule; }
  const schedule::Phase& phase(int p) const { return plan_->schedule.phases[p]; }
  int phases() const { return static_cast<int>(plan_->schedule.phases.size()); }
  int32_t window(int p) const { return layout_[p].window; }
  // Steps live in one array; those of phase p begin here.
  uint32_t first_step(int p) const { return layout_[p].first_step; }
  uint32_t steps() const { return steps_; }
  // Phases to look at again when a step of phase p has advanced.
  std::span<const uint16_t> dependents(int p) const {
    return {dependents_.data() + layout_[p].dependents_begin, layout_[p].dependents_count};
  }
  // Steps that come before iteration 0 of phase p, one after another: the order of sending.
  uint32_t depth(int p) const { return layout_[p].depth; }
  uint64_t offset(int32_t piece) const { return offsets_[piece]; }
  // Bytes from the beginning of the user's input, or output, to a piece of it.
  uint64_t place(schedule::Buffer buffer, int32_t piece) const;
  // Smallest vector offset at which an iteration >= i of phase p begins.
  uint64_t lowest_from(int p, int32_t i) const;
  uint64_t slot_bytes() const { return slot_bytes_; }

 private:
  struct Layout {
    int32_t window = 0;
    uint32_t first_step = 0;
    uint32_t depth = 0;
    uint32_t dependents_begin = 0, dependents_count = 0;
    uint32_t lowest_begin = UINT32_MAX;  // into lowest_piece_; only where somebody waits for all
  };

  void lay_out();
  void measure_depths();
  int64_t depth_of_tag(int32_t tag) const;
  void collect_dependents();
  void collect_lowest();

  std::shared_ptr<const Plan> plan_;
  bool prepared_ = false;  // not if an exception interrupted prepare()
  uint64_t count_ = 0;
  std::shared_ptr<const Blocks> blocks_;
  uint32_t element_ = 0;
  uint32_t steps_ = 0;
  uint64_t slot_bytes_ = 0;
  std::vector<Layout> layout_;
  std::vector<uint16_t> dependents_;
  std::vector<int32_t> lowest_piece_;
  std::vector<uint64_t> offsets_;
};

}  // namespace tbccl::engine
