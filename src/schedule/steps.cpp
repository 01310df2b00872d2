#include "schedule/steps.h"

#include <algorithm>
#include <tuple>

#include "base/formatted.h"

namespace tbccl::schedule {

namespace {

constexpr const char* kKinds[] = {"send", "recv", "recv-reduce", "copy", "fold", "scale"};

Status bad(const Schedule& s, size_t phase, const std::string& what) {
  return {tbcclInternalError, formatted("schedule {} of rank {} of {}: phase {}: {}", s.algorithm,
                                        s.rank, s.size, phase, what)};
}

// A range that the user's buffer does not hold, or not in one stretch.
const char* wrong_place(const Schedule& s, const Collective& c, const Window& window, int32_t first,
                        int32_t pieces) {
  const int32_t each = s.pieces / s.blocks;
  const int32_t begin = first / each, end = (first + pieces - 1) / each;
  if (!window.holds(begin) || !window.holds(end)) return "a piece that the user's buffer lacks";
  if (begin != end && varies(c.operation)) return "several blocks, which lie anywhere";
  return nullptr;
}

const char* wrong_operand(const Schedule& s, const Collective& c, const Phase& p,
                          const Operand& operand, int32_t i) {
  const int32_t first = p.piece.at(i) + operand.shift.at(i);
  if (first < 0 || first + p.pieces > s.pieces) return "a shift to a piece that does not exist";
  const Shape shape = shape_of(c, s.rank, s.size);
  switch (operand.buffer) {
    case Buffer::kInput:
      return wrong_place(s, c, shape.input, first, p.pieces);
    case Buffer::kOutput:
      return wrong_place(s, c, shape.output, first, p.pieces);
    case Buffer::kScratch:
      break;
  }
  const int32_t slot = operand.slot.at(i);
  if (slot < 0 || slot >= s.scratch_slots) return "a scratch slot that does not exist";
  return first < operand.origin ? "a piece before the slot's first" : nullptr;
}

const char* wrong_fold(const Schedule& s, const Phase& p) {
  if (p.sources < 1 || p.own >= p.sources) return "a fold's number of sources";
  for (int32_t k = 0; k < p.sources; k++)
    if (k != p.own && (p.fold_slot.at(k) < 0 || p.fold_slot.at(k) >= s.scratch_slots))
      return "a contribution in a scratch slot that does not exist";
  return nullptr;
}

const char* wrong_consumer(const Schedule& s, const Phase& p) {
  if (static_cast<size_t>(p.consumer) >= s.phases.size()) return "a consumer that does not exist";
  const Phase& fold = s.phases[static_cast<size_t>(p.consumer)];
  if (p.kind != Kind::kRecv || p.dst.buffer != Buffer::kScratch || p.dst.origin >= 0 ||
      fold.kind != Kind::kFold)
    return "a consumer is for a receive into scratch that a fold drains";
  if (fold.repeat != 1 || fold.pieces != p.pieces || p.piece.stride != 0 ||
      fold.piece.at(0) != p.piece.at(0))
    return "a consumer of another range";
  return nullptr;
}

const char* wrong_dep(const Schedule& s, const Dep& dep) {
  if (dep.phase < 0 || static_cast<size_t>(dep.phase) >= s.phases.size())
    return "a dependency on a phase that does not exist";
  return nullptr;
}

const char* wrong_iteration(const Schedule& s, const Collective& c, const Phase& p, int32_t i) {
  const int32_t first = p.piece.at(i);
  if (first < 0 || first + p.pieces > s.pieces) return "a piece that does not exist";
  if (is_message(p.kind)) {
    const int32_t peer = p.peer.at(i);
    if (peer < 0 || peer >= s.size || peer == s.rank) return "a peer that is no other rank";
    if (p.tag.at(i) < 0) return "a negative tag";
  }
  if (has_src(p))
    if (const char* what = wrong_operand(s, c, p, p.src, i)) return what;
  return has_dst(p) ? wrong_operand(s, c, p, p.dst, i) : nullptr;
}

const char* wrong_phase(const Schedule& s, const Collective& c, const Phase& p) {
  if (p.repeat < 1 || p.pieces < 1) return "nothing to do";
  for (int32_t i = 0; i < p.repeat; i++)
    if (const char* what = wrong_iteration(s, c, p, i)) return what;
  // In place what is to be written has a place in the output.
  if (has_dst(p) && p.dst.buffer == Buffer::kInput) return "the send buffer is written";
  if (p.kind == Kind::kFold)
    if (const char* what = wrong_fold(s, p)) return what;
  if (p.consumer >= 0)
    if (const char* what = wrong_consumer(s, p)) return what;
  for (const Dep& dep : p.deps)
    if (const char* what = wrong_dep(s, dep)) return what;
  return nullptr;
}

// One end of a message.
struct End {
  int32_t from, to, tag;
  int32_t step;
  auto key() const { return std::tie(from, to, tag); }
};

std::string name_of(const End& end) {
  return formatted("message from rank {} to rank {}, tag {}", end.from, end.to, end.tag);
}

Status mismatch(const End& end, const char* what) {
  return {tbcclInternalError, formatted("the {} {}", name_of(end), what)};
}

void collect(const Steps& steps, std::vector<End>* sends, std::vector<End>* receives) {
  const int32_t self = steps.schedule().rank;
  for (int32_t number = 0; number < steps.phases(); number++) {
    const Phase& p = steps.phase(number);
    if (!is_message(p.kind)) continue;
    for (int32_t i = 0; i < p.repeat; i++) {
      const int32_t peer = p.peer.at(i), tag = p.tag.at(i), step = steps.number(number, i);
      if (p.kind == Kind::kSend)
        sends->push_back({self, peer, tag, step});
      else
        receives->push_back({peer, self, tag, step});
    }
  }
}

Status sort_unique(std::vector<End>* ends, const char* twice) {
  std::sort(ends->begin(), ends->end(),
            [](const End& a, const End& b) { return a.key() < b.key(); });
  const auto same = std::adjacent_find(
      ends->begin(), ends->end(), [](const End& a, const End& b) { return a.key() == b.key(); });
  return same == ends->end() ? Status() : mismatch(*same, twice);
}

// Lengths are compared for vectors shorter than, as long as and longer than the pieces, cut into
// whole elements and into cache lines.
bool same_bytes(const Steps& a, int32_t step_a, const Steps& b, int32_t step_b) {
  const Phase& p = a.phase(a.phase_of(step_a));
  const Phase& q = b.phase(b.phase_of(step_b));
  const int32_t x = p.piece.at(a.iteration_of(step_a)), y = q.piece.at(b.iteration_of(step_b));
  const int32_t pieces = a.schedule().pieces;
  if (pieces != b.schedule().pieces || a.schedule().blocks != b.schedule().blocks) return false;
  if (x == y && p.pieces == q.pieces) return true;
  std::vector<uint64_t> offsets(static_cast<size_t>(pieces) + 1);
  const auto n = static_cast<uint64_t>(pieces / a.schedule().blocks);
  for (uint64_t count : {uint64_t{1}, n - 1, n, 7 * n + 3, 1000 * n + 17}) {
    block_offsets(a.schedule(), count, 4, offsets);
    const auto bytes = [&](int32_t first, int32_t length) {
      return offsets[static_cast<size_t>(first + length)] - offsets[static_cast<size_t>(first)];
    };
    if (bytes(x, p.pieces) != bytes(y, q.pieces)) return false;
  }
  return true;
}

}  // namespace

Steps::Steps(const Schedule& schedule) : schedule_(&schedule), first_{0} {
  for (size_t number = 0; number < schedule.phases.size(); number++) {
    const int32_t repeat = std::max(schedule.phases[number].repeat, 0);
    first_.push_back(first_.back() + repeat);
    phase_of_.insert(phase_of_.end(), static_cast<size_t>(repeat), static_cast<int16_t>(number));
  }
}

std::string Steps::name(int32_t step) const {
  const int32_t number = phase_of(step);
  return formatted("rank {}, phase {} ({}), iteration {}", schedule_->rank, number,
                   kKinds[static_cast<size_t>(phase(number).kind)], iteration_of(step));
}

Status check_shape(const Schedule& s, const Collective& collective) {
  if (s.size < 1 || s.rank < 0 || s.rank >= s.size || s.blocks < 1 || s.pieces < s.blocks ||
      s.pieces % s.blocks != 0 || s.scratch_slots < 0)
    return bad(s, 0, "the schedule's own numbers are out of range");
  const Shape shape = shape_of(collective, s.rank, s.size);
  const int32_t each = s.pieces / s.blocks;
  if (s.blocks != shape.blocks || s.input_first != shape.input.first * each ||
      s.output_first != shape.output.first * each)
    return bad(s, 0, "the schedule is for buffers of another shape");
  for (size_t number = 0; number < s.phases.size(); number++)
    if (const char* what = wrong_phase(s, collective, s.phases[number]))
      return bad(s, number, what);
  return {};
}

Status match(std::span<const Steps> ranks, std::vector<std::vector<Meeting>>* meetings) {
  std::vector<End> sends, receives;
  meetings->assign(ranks.size(), {});
  for (size_t r = 0; r < ranks.size(); r++) {
    (*meetings)[r].assign(static_cast<size_t>(ranks[r].count()), {});
    collect(ranks[r], &sends, &receives);
  }
  if (Status s = sort_unique(&sends, "is sent twice"); !s.ok()) return s;
  if (Status s = sort_unique(&receives, "is received twice"); !s.ok()) return s;
  for (size_t i = 0; i < std::max(sends.size(), receives.size()); i++) {
    if (i == receives.size() || (i < sends.size() && sends[i].key() < receives[i].key()))
      return mismatch(sends[i], "is sent but not received");
    if (i == sends.size() || receives[i].key() < sends[i].key())
      return mismatch(receives[i], "is received but not sent");
    const auto from = static_cast<size_t>(sends[i].from), to = static_cast<size_t>(sends[i].to);
    if (!same_bytes(ranks[from], sends[i].step, ranks[to], receives[i].step))
      return mismatch(sends[i], "is received with another length than it is sent with");
    (*meetings)[from][static_cast<size_t>(sends[i].step)] = {sends[i].to, receives[i].step};
    (*meetings)[to][static_cast<size_t>(receives[i].step)] = {sends[i].from, sends[i].step};
  }
  return {};
}

}  // namespace tbccl::schedule
