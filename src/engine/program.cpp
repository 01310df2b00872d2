#include "engine/program.h"

#include <algorithm>

#include "schedule/steps.h"

namespace tbccl::engine {

using schedule::Dep;
using schedule::Phase;

namespace {

constexpr int kDepthPasses = 4;
constexpr size_t kMostCompared = 128;  // phases

}  // namespace

void Program::prepare(const std::shared_ptr<const Plan>& plan, uint64_t count,
                      const std::shared_ptr<const Blocks>& blocks, uint32_t element) {
  const bool same_plan = prepared_ && plan == plan_;
  if (same_plan && count == count_ && blocks == blocks_ && element == element_) return;
  prepared_ = false;
  plan_ = plan;
  count_ = count;
  blocks_ = blocks;
  element_ = element;
  if (!same_plan) {
    lay_out();
    measure_depths();
    collect_dependents();
    collect_lowest();
  }
  const schedule::Schedule& s = plan_->schedule;
  offsets_.resize(static_cast<size_t>(s.pieces) + 1);
  if (blocks_ != nullptr) {
    schedule::block_offsets(s, blocks_->counts, element, offsets_);
  } else {
    schedule::block_offsets(s, count, element, offsets_);
  }
  slot_bytes_ = 0;
  if (s.scratch_slots > 0) {
    slot_bytes_ = (schedule::scratch_slot_bytes(s, offsets_, kSlotWindowBytes) + 63) / 64 * 64;
  }
  prepared_ = true;
}

void Program::lay_out() {
  const schedule::Schedule& s = plan_->schedule;
  // A fold that frees ring slots waits for every contribution, so that all of them must be able to
  // flow at once, here and at the ranks that send them.
  const bool rings = std::any_of(s.phases.begin(), s.phases.end(),
                                 [](const Phase& phase) { return phase.consumer >= 0; });
  layout_.assign(s.phases.size(), {});
  steps_ = 0;
  for (size_t p = 0; p < s.phases.size(); ++p) {
    const int32_t repeat = std::max(s.phases[p].repeat, 0);
    layout_[p].window = rings ? repeat : std::min(repeat, kWindow);
    layout_[p].first_step = steps_;
    steps_ += static_cast<uint32_t>(layout_[p].window);
  }
}

// Iteration i of a phase of depth d is step d + i. A phase comes after what it depends on, unless
// that comes later in the list (a slot that is free again); and a receive is as deep as the message
// that this rank sends with the same tag, because ranks mostly do alike. Only an order of sending:
// where that does not hold nothing breaks.
void Program::measure_depths() {
  const auto& phases = plan_->schedule.phases;
  const bool by_tag = phases.size() <= kMostCompared;
  bool moved = true;
  for (int pass = 0; pass < kDepthPasses && moved; ++pass) {
    moved = false;
    for (size_t p = 0; p < phases.size(); ++p) {
      int64_t depth = layout_[p].depth;
      for (const Dep& dep : phases[p].deps) {
        if (dep.phase >= static_cast<int>(p)) continue;
        const bool all = dep.shift == schedule::kAllIterations;
        const int64_t shift = all ? phases[dep.phase].repeat - 1 : dep.shift;
        depth = std::max(depth, layout_[dep.phase].depth + shift + 1);
      }
      if (by_tag && schedule::is_receive(phases[p].kind)) {
        depth = std::max(depth, depth_of_tag(phases[p].tag.at(0)));
      }
      depth = std::min<int64_t>(depth, INT32_MAX);
      moved |= depth != layout_[p].depth;
      layout_[p].depth = static_cast<uint32_t>(depth);
    }
  }
}

// Of the message that this rank sends with it; 0 if there is none.
int64_t Program::depth_of_tag(int32_t tag) const {
  const auto& phases = plan_->schedule.phases;
  for (size_t q = 0; q < phases.size(); ++q) {
    if (phases[q].kind != schedule::Kind::kSend) continue;
    for (int32_t j = 0; j < phases[q].repeat; ++j) {
      if (phases[q].tag.at(j) == tag) return int64_t{layout_[q].depth} + j;
    }
  }
  return 0;
}

void Program::collect_dependents() {
  const auto& phases = plan_->schedule.phases;
  dependents_.clear();
  for (size_t p = 0; p < phases.size(); ++p) {
    layout_[p].dependents_begin = static_cast<uint32_t>(dependents_.size());
    for (size_t q = 0; q < phases.size(); ++q) {
      const bool waits =
          std::any_of(phases[q].deps.begin(), phases[q].deps.end(),
                      [p](const Dep& dep) { return dep.phase == static_cast<int>(p); });
      if (waits || phases[q].consumer == static_cast<int>(p)) {
        dependents_.push_back(static_cast<uint16_t>(q));
      }
    }
    layout_[p].dependents_count =
        static_cast<uint32_t>(dependents_.size()) - layout_[p].dependents_begin;
  }
}

void Program::collect_lowest() {
  const auto& phases = plan_->schedule.phases;
  lowest_piece_.clear();
  for (const Phase& waiting : phases) {
    for (const Dep& dep : waiting.deps) {
      Layout& layout = layout_[dep.phase];
      if (dep.shift != schedule::kAllIterations || layout.lowest_begin != UINT32_MAX) continue;
      const Phase& target = phases[dep.phase];
      layout.lowest_begin = static_cast<uint32_t>(lowest_piece_.size());
      lowest_piece_.resize(lowest_piece_.size() + static_cast<size_t>(target.repeat));
      int32_t lowest = INT32_MAX;
      for (int32_t i = target.repeat - 1; i >= 0; --i) {
        lowest = std::min(lowest, target.piece.at(i));
        lowest_piece_[layout.lowest_begin + i] = lowest;
      }
    }
  }
}

uint64_t Program::place(schedule::Buffer buffer, int32_t piece) const {
  const schedule::Schedule& s = plan_->schedule;
  const bool input = buffer == schedule::Buffer::kInput;
  if (blocks_ == nullptr) return offsets_[piece] - offsets_[input ? s.input_first : s.output_first];
  const int32_t each = s.pieces / s.blocks, block = piece / each;
  const uint64_t begins = (input ? blocks_->input : blocks_->output)[block];
  return begins * element_ + offsets_[piece] - offsets_[block * each];
}

uint64_t Program::lowest_from(int p, int32_t i) const {
  return offsets_[lowest_piece_[layout_[p].lowest_begin + i]];
}

}  // namespace tbccl::engine
