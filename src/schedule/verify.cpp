// Symbolic execution of all ranks (see verify.h).
//
// Steps complete whole. That is a fair worst case because enabling is monotone: a step that may
// run stays able to run whatever else runs first, so one order of execution gets stuck exactly if
// every order does, and streaming, eager messages and early releases only enable more.
#include "schedule/verify.h"

#include <algorithm>

#include "base/formatted.h"
#include "schedule/expression.h"
#include "schedule/steps.h"

namespace tbccl::schedule {

namespace {

Status wrong(const std::string& what) { return {tbcclInternalError, what}; }

struct Slot {
  int32_t first = -1;  // piece its contents begin with
  std::vector<Expression> contents;
};

// What the buffers of a rank hold.
class Memory {
 public:
  Memory(const Schedule& s, const Collective& c, Expressions& expressions)
      : in_place_(c.in_place),
        shape_(shape_of(c, s.rank, s.size)),
        each_(s.pieces / s.blocks),
        input_(static_cast<size_t>(s.pieces), kUnwritten),
        output_(static_cast<size_t>(s.pieces), kUnwritten),
        slots_(static_cast<size_t>(s.scratch_slots)) {
    const Window& has = shape_.input;
    for (int32_t piece = has.first * each_; piece < (has.first + has.count) * each_; piece++)
      user(Buffer::kInput, piece) = expressions.contribution(s.rank, piece);
  }

  const Shape& shape() const { return shape_; }
  const std::vector<Expression>& output() const { return output_; }

  // False: something in the range has not been written, or not at this place of its slot.
  bool read(const Operand& from, int32_t slot, int32_t first, int32_t pieces,
            std::vector<Expression>* values) {
    values->assign(static_cast<size_t>(pieces), kUnwritten);
    const int32_t begin = from.origin < 0 ? first : from.origin;
    for (int32_t k = 0; k < pieces; k++) {
      Expression& value = (*values)[static_cast<size_t>(k)];
      if (from.buffer != Buffer::kScratch) {
        value = user(from.buffer, first + k);
      } else {
        const Slot& s = slots_[static_cast<size_t>(slot)];
        const auto at = static_cast<size_t>(first + k - begin);
        if (s.first == begin && at < s.contents.size()) value = s.contents[at];
      }
      if (value == kUnwritten) return false;
    }
    return true;
  }

  void write(const Operand& to, int32_t slot, int32_t first,
             const std::vector<Expression>& values) {
    if (to.buffer != Buffer::kScratch) {
      for (size_t k = 0; k < values.size(); k++)
        user(to.buffer, first + static_cast<int32_t>(k)) = values[k];
      return;
    }
    Slot& s = slots_[static_cast<size_t>(slot)];
    if (to.origin < 0 || s.first != to.origin) s = {to.origin < 0 ? first : to.origin, {}};
    const auto at = static_cast<size_t>(first - s.first);
    s.contents.resize(std::max(s.contents.size(), at + values.size()), kUnwritten);
    std::copy(values.begin(), values.end(), s.contents.begin() + static_cast<std::ptrdiff_t>(at));
  }

 private:
  Expression& user(Buffer buffer, int32_t piece) {
    if (buffer == Buffer::kOutput) return output_[static_cast<size_t>(piece)];
    const bool shared = in_place_ && shape_.output.holds(piece / each_ + shape_.alias);
    return shared ? output_[static_cast<size_t>(piece + shape_.alias * each_)]
                  : input_[static_cast<size_t>(piece)];
  }

  bool in_place_;
  Shape shape_;
  int32_t each_;  // pieces of a block
  std::vector<Expression> input_, output_;
  std::vector<Slot> slots_;
};

// Which steps of a rank are complete, and which may run.
class Progress {
 public:
  explicit Progress(const Steps& steps)
      : steps_(&steps),
        complete_(static_cast<size_t>(steps.count()), false),
        first_open_(static_cast<size_t>(steps.phases()), 0),
        completed_(static_cast<size_t>(steps.phases()), 0) {}

  bool complete(int32_t step) const { return complete_[static_cast<size_t>(step)]; }
  bool finished() const { return left() == 0; }
  int32_t left() const {
    int32_t n = steps_->count();
    for (int32_t c : completed_) n -= c;
    return n;
  }

  void mark(int32_t step) {
    const auto phase = static_cast<size_t>(steps_->phase_of(step));
    complete_[static_cast<size_t>(step)] = true;
    completed_[phase]++;
    int32_t& open = first_open_[phase];
    while (open < steps_->phase(static_cast<int32_t>(phase)).repeat &&
           complete(steps_->number(static_cast<int32_t>(phase), open)))
      open++;
  }

  int32_t first_open(int32_t phase) const { return first_open_[static_cast<size_t>(phase)]; }
  int32_t end_open(int32_t phase) const {
    return std::min(first_open(phase) + kOpenIterations, steps_->phase(phase).repeat);
  }

  // Open, not complete, and everything it waits for is complete, but for receives into rings that
  // phase `draining` empties.
  bool may_run(int32_t step, int32_t draining = -1) const {
    const int32_t number = steps_->phase_of(step), i = steps_->iteration_of(step);
    if (complete(step) || i < first_open(number) || i >= end_open(number)) return false;
    for (const Dep& dep : steps_->phase(number).deps) {
      if (draining >= 0 && steps_->phase(dep.phase).consumer == draining) continue;
      const int32_t repeat = steps_->phase(dep.phase).repeat, on = i + dep.shift;
      if (dep.shift == kAllIterations) {
        if (completed_[static_cast<size_t>(dep.phase)] < repeat) return false;
      } else if (on >= 0 && on < repeat && !complete(steps_->number(dep.phase, on))) {
        return false;
      }
    }
    return true;
  }

 private:
  const Steps* steps_;
  std::vector<bool> complete_;
  std::vector<int32_t> first_open_, completed_;
};

class Execution {
 public:
  Execution(std::span<const Steps> steps, std::span<const Collective> collectives,
            const std::vector<std::vector<Meeting>>& meetings)
      : steps_(steps), collectives_(collectives), meetings_(meetings) {
    for (size_t r = 0; r < steps.size(); r++) {
      memory_.emplace_back(steps[r].schedule(), collectives[r], expressions_);
      progress_.emplace_back(steps[r]);
    }
  }

  Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < steps_.size(); r++)
        for (int32_t phase = 0; phase < steps_[r].phases(); phase++)
          if (Status s = run_phase(r, phase, &moved); !s.ok()) return s;
    }
    return all_finished();
  }

  Status check_outputs() const {
    for (size_t r = 0; r < steps_.size(); r++) {
      const Schedule& s = steps_[r].schedule();
      const auto& output = memory_[r].output();
      const int32_t each = s.pieces / s.blocks;
      for (int32_t piece = 0; piece < s.pieces; piece++) {
        if (!memory_[r].shape().output.holds(piece / each)) continue;
        const Expression x = output[static_cast<size_t>(piece)];
        const std::string what = not_right(r, x, piece, each);
        if (!what.empty())
          return wrong(formatted("schedule {} of rank {} of {}: output piece {} {}", s.algorithm, r,
                                 steps_.size(), piece, what));
      }
    }
    return {};
  }

 private:
  std::string not_right(size_t r, Expression x, int32_t piece, int32_t each) const {
    const auto rank = static_cast<int32_t>(r), size = static_cast<int32_t>(steps_.size());
    const Collective& c = collectives_.front();
    switch (uniform(c.operation)) {
      case tbcclOpBroadcast:
      case tbcclOpScatter:
        return not_moved(x, c.root, piece);
      case tbcclOpAllGather:
      case tbcclOpGather:
        return not_moved(x, piece / each, piece);
      case tbcclOpAllToAll:
        return not_moved(x, piece / each - size, rank * each + piece % each);
      case tbcclOpScan:
        return not_reduced(r, x, piece, rank + 1);
      case tbcclOpExScan:
        return not_reduced(r, x, piece, rank);
      case tbcclOpReduce:
      case tbcclOpReduceScatter:
        return not_reduced(r, x, piece, size);
      default: {
        const std::string what = not_reduced(r, x, piece, size);
        if (!what.empty() || x == memory_.front().output()[static_cast<size_t>(piece)]) return what;
        return "is computed in another order than on rank 0";
      }
    }
  }
  std::string not_reduced(size_t r, Expression x, int32_t piece, int32_t ranks) const {
    return expressions_.not_a_result(x, piece, ranks, collectives_[r].scale,
                                     steps_[r].schedule().rank_order);
  }
  std::string not_moved(Expression x, int32_t from, int32_t piece) const {
    if (x == kUnwritten) return "is not written";
    return expressions_.is_contribution(x, from, piece)
               ? ""
               : formatted("is not piece {} of rank {}", piece, from);
  }

  Status run_phase(size_t r, int32_t number, bool* moved) {
    const Phase& p = steps_[r].phase(number);
    if (p.kind == Kind::kSend || p.consumer >= 0) return {};  // run with the receive, or the fold
    // The end is taken first: what a completion opens is looked at in the next round.
    const int32_t end = progress_[r].end_open(number);
    for (int32_t i = progress_[r].first_open(number); i < end; i++) {
      const int32_t step = steps_[r].number(number, i);
      if (!can_complete(r, step, number)) continue;
      *moved = true;
      if (Status s = complete(r, step); !s.ok()) return s;
    }
    return {};
  }

  bool can_meet(size_t r, int32_t step) const {
    const Meeting& m = meetings_[r][static_cast<size_t>(step)];
    return progress_[r].may_run(step) && progress_[static_cast<size_t>(m.rank)].may_run(m.step);
  }

  bool can_complete(size_t r, int32_t step, int32_t number) const {
    const Phase& p = steps_[r].phase(number);
    if (is_receive(p.kind)) return can_meet(r, step);
    if (p.kind != Kind::kFold) return progress_[r].may_run(step);
    // Nearly empty rings move only when all that the fold combines moves at once.
    if (!progress_[r].may_run(step, number)) return false;
    for (int32_t from = 0; from < steps_[r].phases(); from++)
      for (int32_t i = 0;
           steps_[r].phase(from).consumer == number && i < steps_[r].phase(from).repeat; i++)
        if (!can_meet(r, steps_[r].number(from, i))) return false;
    return true;
  }

  Status complete(size_t r, int32_t step) {
    const int32_t number = steps_[r].phase_of(step);
    const Phase& p = steps_[r].phase(number);
    if (is_receive(p.kind)) return receive(r, step);
    if (p.kind == Kind::kFold) {
      for (int32_t from = 0; from < steps_[r].phases(); from++)
        for (int32_t i = 0;
             steps_[r].phase(from).consumer == number && i < steps_[r].phase(from).repeat; i++)
          if (Status s = receive(r, steps_[r].number(from, i)); !s.ok()) return s;
      return fold(r, step);
    }
    std::vector<Expression> values;
    if (Status s = read_src(r, step, &values); !s.ok()) return s;
    if (p.kind == Kind::kScale)
      for (Expression& x : values) x = expressions_.scaled(x);
    return write_dst(r, step, std::move(values));
  }

  Status receive(size_t r, int32_t step) {
    const Meeting& m = meetings_[r][static_cast<size_t>(step)];
    const Phase& p = steps_[r].phase(steps_[r].phase_of(step));
    std::vector<Expression> values, own;
    if (Status s = read_src(static_cast<size_t>(m.rank), m.step, &values); !s.ok()) return s;
    progress_[static_cast<size_t>(m.rank)].mark(m.step);
    if (p.kind == Kind::kRecvReduce) {
      if (Status s = read_src(r, step, &own); !s.ok()) return s;
      for (size_t k = 0; k < values.size(); k++)
        values[k] = p.received_first ? expressions_.combined(values[k], own[k])
                                     : expressions_.combined(own[k], values[k]);
    }
    return write_dst(r, step, std::move(values));
  }

  Status fold(size_t r, int32_t step) {
    const Phase& p = steps_[r].phase(steps_[r].phase_of(step));
    const int32_t first = p.piece.at(steps_[r].iteration_of(step));
    std::vector<std::vector<Expression>> sources(static_cast<size_t>(p.sources));
    for (int32_t k = 0; k < p.sources; k++) {
      auto& values = sources[static_cast<size_t>(k)];
      if (k == p.own) {
        if (Status s = read_src(r, step, &values); !s.ok()) return s;
      } else if (!memory_[r].read({Buffer::kScratch, -1, {}, {}}, p.fold_slot.at(k), first,
                                  p.pieces, &values)) {
        return wrong(formatted("{}: contribution {} is not in its slot", steps_[r].name(step), k));
      }
    }
    std::vector<Expression> values, column(static_cast<size_t>(p.sources));
    for (size_t piece = 0; piece < static_cast<size_t>(p.pieces); piece++) {
      for (size_t k = 0; k < column.size(); k++) column[k] = sources[k][piece];
      values.push_back(expressions_.folded(column));
    }
    return write_dst(r, step, std::move(values));
  }

  Status read_src(size_t r, int32_t step, std::vector<Expression>* values) {
    const Phase& p = steps_[r].phase(steps_[r].phase_of(step));
    const int32_t i = steps_[r].iteration_of(step);
    if (memory_[r].read(p.src, p.src.slot.at(i), p.piece.at(i) + p.src.shift.at(i), p.pieces,
                        values))
      return {};
    return wrong(formatted("{}: reads what was not written", steps_[r].name(step)));
  }

  // Completes the step.
  Status write_dst(size_t r, int32_t step, std::vector<Expression> values) {
    const Phase& p = steps_[r].phase(steps_[r].phase_of(step));
    const int32_t i = steps_[r].iteration_of(step);
    if (p.finish)
      for (Expression& x : values) x = expressions_.finished(x);
    memory_[r].write(p.dst, p.dst.slot.at(i), p.piece.at(i) + p.dst.shift.at(i), values);
    progress_[r].mark(step);
    return {};
  }

  Status all_finished() const {
    for (size_t r = 0; r < steps_.size(); r++) {
      if (progress_[r].finished()) continue;
      int32_t step = 0;
      while (progress_[r].complete(step)) step++;
      return wrong(
          formatted("schedule {} of {} ranks gets stuck: {} of {} steps of rank {} never "
                    "complete, the first is {}",
                    steps_[r].schedule().algorithm, steps_.size(), progress_[r].left(),
                    steps_[r].count(), r, steps_[r].name(step)));
    }
    return {};
  }

  std::span<const Steps> steps_;
  std::span<const Collective> collectives_;
  const std::vector<std::vector<Meeting>>& meetings_;
  Expressions expressions_;
  std::vector<Memory> memory_;
  std::vector<Progress> progress_;
};

// With variable counts only the two ends of one block are sure to be as long as each other.
Status check_blocks(std::span<const Steps> ranks, const Collective& collective,
                    const std::vector<std::vector<Meeting>>& meetings) {
  const bool own_blocks = uniform(collective.operation) == tbcclOpAllToAll;
  for (size_t r = 0; r < ranks.size() && varies(collective.operation); r++) {
    const int32_t each = ranks[r].schedule().pieces / ranks[r].schedule().blocks;
    for (int32_t step = 0; step < ranks[r].count(); step++) {
      const Phase& p = ranks[r].phase(ranks[r].phase_of(step));
      if (p.kind != Kind::kSend) continue;
      const Meeting& m = meetings[r][static_cast<size_t>(step)];
      const Steps& to = ranks[static_cast<size_t>(m.rank)];
      const Phase& q = to.phase(to.phase_of(m.step));
      const int32_t sent = p.piece.at(ranks[r].iteration_of(step));
      const int32_t got = q.piece.at(to.iteration_of(m.step));
      const auto from = static_cast<int32_t>(r), size = static_cast<int32_t>(ranks.size());
      const int32_t wanted =
          own_blocks ? (sent / each == m.rank ? (size + from) * each + sent % each : -1) : sent;
      if (got != wanted || p.pieces != q.pieces)
        return wrong(formatted("{}: received as another block", ranks[r].name(step)));
    }
  }
  return {};
}

Status check_group(std::span<const Schedule> all, std::span<const Collective> collectives) {
  if (all.empty() || all.size() != collectives.size())
    return wrong("as many schedules as collectives are needed, and at least one");
  for (size_t r = 0; r < all.size(); r++) {
    const Schedule& s = all[r];
    const Collective& c = collectives[r];
    if (s.rank != static_cast<int32_t>(r) || s.size != static_cast<int32_t>(all.size()) ||
        s.pieces != all[0].pieces || s.blocks != all[0].blocks)
      return wrong(formatted("the schedule of rank {} is for another rank, size or cut", r));
    if (c.operation != collectives[0].operation || c.root != collectives[0].root ||
        c.scale != collectives[0].scale)
      return wrong(formatted("rank {} takes part in another collective", r));
    if (Status status = check_shape(s, c); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Status verify(std::span<const Schedule> all_ranks, std::span<const Collective> collectives) {
  if (Status s = check_group(all_ranks, collectives); !s.ok()) return s;
  const std::vector<Steps> steps(all_ranks.begin(), all_ranks.end());
  std::vector<std::vector<Meeting>> meetings;
  if (Status s = match(steps, &meetings); !s.ok()) return s;
  if (Status s = check_blocks(steps, collectives.front(), meetings); !s.ok()) return s;
  Execution execution(steps, collectives, meetings);
  if (Status s = execution.run(); !s.ok()) return s;
  if (Status s = execution.check_outputs(); !s.ok()) return s;
  for (size_t r = 0; r < steps.size(); r++)
    if (Status s = verify_order(steps[r], collectives[r]); !s.ok()) return s;
  return {};
}

Status verify(std::span<const Schedule> all_ranks, const Collective& collective) {
  const std::vector<Collective> collectives(all_ranks.size(), collective);
  return verify(all_ranks, collectives);
}

}  // namespace tbccl::schedule
