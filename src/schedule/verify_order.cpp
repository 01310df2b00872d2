// That all conflicting accesses of one rank are ordered by its dependencies.
//
// Plan.  List what every step reads and writes, by place: a piece of a user buffer, or a scratch
// slot.
//   For two accesses to one place, one of them a write, search backwards along dependencies from
//   the later one for the earlier one.
// Streaming.  A step may work on piece z as soon as each step it depends on has done all its
//   pieces up to z. So the search carries the last piece that must be done (the frontier): a
//   dependency on a step with range [b, e) leaves min(z, e - 1), and ends where z < b.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "schedule/steps.h"
#include "schedule/verify.h"

namespace tbccl::schedule {

namespace {

struct Access {
  int32_t step;
  int32_t first, last;  // pieces
  bool write;
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

// Accesses by place. Places: {0, piece} the output (in place also the input), {1, piece} the
// input, {2, slot} scratch.
using Places = std::map<std::pair<int, int32_t>, std::vector<Access>>;

void add(Places* places, const Operand& operand, int32_t iteration, const Access& access,
         bool in_place) {
  if (operand.buffer == Buffer::kScratch) {
    (*places)[{2, operand.slot.at(iteration)}].push_back(access);
    return;
  }
  const int buffer = operand.buffer == Buffer::kInput && !in_place ? 1 : 0;
  for (int32_t piece = access.first; piece <= access.last; piece++)
    (*places)[{buffer, piece - operand.origin}].push_back(
        {access.step, piece, piece, access.write});
}

Places list(const Steps& steps, const Order& order, bool in_place) {
  Places places;
  for (int32_t step = 0; step < steps.count(); step++) {
    const Phase& p = steps.phase(steps.phase_of(step));
    const int32_t i = steps.iteration_of(step);
    const Range r = order.range(step);
    if (has_src(p)) add(&places, p.src, i, {step, r.first, r.last, false}, in_place);
    if (has_dst(p)) add(&places, p.dst, i, {step, r.first, r.last, true}, in_place);
    if (p.kind != Kind::kFold) continue;
    for (int32_t k = 0; k < p.sources; k++)
      if (k != p.own) places[{2, p.fold_slot.at(k)}].push_back({step, r.first, r.last, false});
  }
  return places;
}

bool ordered(Order& order, const Access& a, const Access& b) {
  if (a.first != b.first)  // other bytes of a slot lie on each other: one wholly before the other
    return order.before(a.step, a.last, b.step, b.first) ||
           order.before(b.step, b.last, a.step, a.first);
  bool forwards = true, backwards = true;
  for (int32_t piece = a.first; piece <= std::min(a.last, b.last); piece++) {
    forwards = forwards && order.before(a.step, piece, b.step, piece);
    backwards = backwards && !forwards && order.before(b.step, piece, a.step, piece);
  }
  return forwards || backwards;
}

}  // namespace

Status verify_order(const Steps& steps, const Collective& collective) {
  Order order(steps);
  for (const auto& [place, accesses] : list(steps, order, collective.in_place))
    for (size_t i = 0; i < accesses.size(); i++)
      for (size_t j = i + 1; j < accesses.size(); j++) {
        const Access &a = accesses[i], &b = accesses[j];
        if (a.step == b.step || (!a.write && !b.write) || ordered(order, a, b)) continue;
        const char* names[] = {"output piece", "input piece", "scratch slot"};
        return {
            tbcclInternalError,
            fmt::format("no dependency orders two uses of {} {}: {}, and {}", names[place.first],
                        place.second, steps.name(a.step), steps.name(b.step))};
      }
  return {};
}

}  // namespace tbccl::schedule
