// That all conflicting accesses of one rank are ordered by its dependencies.
//
// Plan.  List what every step reads and writes, by place: a piece of a user buffer, or a scratch
// slot.
//   For two accesses to one place, one of them a write, search backwards along dependencies from
//   the later one for the earlier one.
// Streaming.  A step may work on piece z as soon as each step it depends on has done all its
//   pieces up to z. So the search carries the last piece that must be done (the frontier): a
//   dependency on a step with range [b, e) leaves min(z, e - 1), and ends where z < b.

#include <algorithm>
#include <map>

#include "base/formatted.h"
#include "schedule/steps.h"
#include "schedule/verify.h"

namespace tbccl::schedule {

namespace {

struct Access {
  int32_t step;
  int32_t first, last;  // pieces that the step works on
  bool write;
  int32_t base = 0;  // scratch: piece that the slot begins with
  int32_t at = 0;    // pieces from there to `first`
};

struct Range {
  int32_t first, last;
};

class Order {
 public:
  explicit Order(const Steps& steps)
      : steps_(steps), seen_(static_cast<size_t>(steps.count()), kNever) {}

  Range range(int32_t step) const {
    const Phase& p = steps_.phase(steps_.phase_of(step));
    const int32_t first = p.piece.at(steps_.iteration_of(step));
    return {first, first + p.pieces - 1};
  }

  // Whether `earlier` has surely done its piece x before `later` touches its piece z. A send has
  // done with a piece when it is released.
  bool before(int32_t earlier, int32_t x, int32_t later, int32_t z) {
    const bool is_send = steps_.phase(steps_.phase_of(earlier)).kind == Kind::kSend;
    std::vector<std::pair<int32_t, int32_t>> rest = {{later, z}};
    touched_.clear();
    bool found = false;
    while (!rest.empty() && !found) {
      const int32_t step = rest.back().first, frontier = rest.back().second;
      rest.pop_back();
      steps_.for_each_dep(step, [&](int32_t on, const Dep& dep) {
        const Range r = range(on);
        const bool whole = dep.kind == DepKind::kReleased;
        if (!whole && frontier < r.first) return;
        const int32_t reached = whole ? r.last : std::min(frontier, r.last);
        if (on == earlier && reached >= x && (whole || !is_send)) found = true;
        int32_t& seen = seen_[static_cast<size_t>(on)];
        if (seen >= reached) return;
        if (seen == kNever) touched_.push_back(on);
        seen = reached;
        rest.emplace_back(on, reached);
      });
    }
    for (int32_t step : touched_) seen_[static_cast<size_t>(step)] = kNever;
    return found;
  }

 private:
  static constexpr int32_t kNever = -1;
  const Steps& steps_;
  std::vector<int32_t> seen_;  // furthest frontier searched from
  std::vector<int32_t> touched_;
};

// Accesses by place. Places: {0, piece} the output (in place also what it shares with the input),
// {1, piece} the input, {2, slot} scratch.
using Places = std::map<std::pair<int, int32_t>, std::vector<Access>>;

class Listing {
 public:
  Listing(const Steps& steps, const Collective& c)
      : shape_(shape_of(c, steps.schedule().rank, steps.schedule().size)),
        each_(steps.schedule().pieces / steps.schedule().blocks),
        in_place_(c.in_place) {}

  void add(const Operand& operand, int32_t iteration, Access access) {
    const int32_t shift = operand.shift.at(iteration);
    if (operand.buffer == Buffer::kScratch) {
      access.base = operand.origin < 0 ? access.first + shift : operand.origin;
      access.at = access.first + shift - access.base;
      places_[{2, operand.slot.at(iteration)}].push_back(access);
      return;
    }
    for (int32_t piece = access.first; piece <= access.last; piece++)
      places_[place(operand.buffer, piece + shift)].push_back(
          {access.step, piece, piece, access.write});
  }
  void add_slot(int32_t slot, const Access& access) { places_[{2, slot}].push_back(access); }
  Places take() { return std::move(places_); }

 private:
  std::pair<int, int32_t> place(Buffer buffer, int32_t piece) const {
    if (buffer == Buffer::kOutput) return {0, piece};
    const bool shared = in_place_ && shape_.output.holds(piece / each_ + shape_.alias);
    if (shared) return {0, piece + shape_.alias * each_};
    return {1, piece};
  }

  Shape shape_;
  int32_t each_;  // pieces of a block
  bool in_place_;
  Places places_;
};

Places list(const Steps& steps, const Order& order, const Collective& collective) {
  Listing places(steps, collective);
  for (int32_t step = 0; step < steps.count(); step++) {
    const Phase& p = steps.phase(steps.phase_of(step));
    const int32_t i = steps.iteration_of(step);
    const Range r = order.range(step);
    if (has_src(p)) places.add(p.src, i, {step, r.first, r.last, false});
    if (has_dst(p)) places.add(p.dst, i, {step, r.first, r.last, true});
    if (p.kind != Kind::kFold) continue;
    for (int32_t k = 0; k < p.sources; k++)
      if (k != p.own) places.add_slot(p.fold_slot.at(k), {step, r.first, r.last, false, r.first});
  }
  return places.take();
}

bool ordered(Order& order, const Access& a, const Access& b) {
  if (a.base != b.base)  // other bytes of a slot lie on each other: one wholly before the other
    return order.before(a.step, a.last, b.step, b.first) ||
           order.before(b.step, b.last, a.step, a.first);
  const int32_t end = std::min(a.at + a.last - a.first, b.at + b.last - b.first);
  bool forwards = true, backwards = true;
  for (int32_t at = std::max(a.at, b.at); at <= end; at++) {
    const int32_t x = a.first + at - a.at, y = b.first + at - b.at;
    forwards = forwards && order.before(a.step, x, b.step, y);
    backwards = backwards && !forwards && order.before(b.step, y, a.step, x);
  }
  return forwards || backwards;
}

}  // namespace

Status verify_order(const Steps& steps, const Collective& collective) {
  Order order(steps);
  for (const auto& [place, accesses] : list(steps, order, collective))
    for (size_t i = 0; i < accesses.size(); i++)
      for (size_t j = i + 1; j < accesses.size(); j++) {
        const Access &a = accesses[i], &b = accesses[j];
        if (a.step == b.step || (!a.write && !b.write) || ordered(order, a, b)) continue;
        const char* names[] = {"output piece", "input piece", "scratch slot"};
        return {tbcclInternalError,
                formatted("no dependency orders two uses of {} {}: {}, and {}", names[place.first],
                          place.second, steps.name(a.step), steps.name(b.step))};
      }
  return {};
}

}  // namespace tbccl::schedule
