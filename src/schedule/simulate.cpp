// Discrete events (see simulate.h). A step is a number of equal segments, done in order:
//
//   started  segments whose first event is in the queue or past
//   done     segments that are complete; what depends on the step looks at this
//
// A step is looked at again when one of the steps it depends on has moved, when its other end has,
// or when the window of its phase has. Events: begin (a segment takes the first processor), next
// (it leaves it to the next segment, so that messages take turns), arrive (it takes the
// receiver's), end.
//
// "Rank" is here an actor: a rank of its own, or one that stands for all that behave like it.
#include "schedule/simulate.h"

#include <algorithm>
#include <queue>

#include "base/formatted.h"
#include "schedule/fold.h"
#include "schedule/resources.h"
#include "schedule/steps.h"

namespace tbccl::schedule {

namespace {

constexpr uint64_t kSegmentBytes = 64 << 10;
constexpr int64_t kMostSegments = 128;       // of one step
constexpr int64_t kSegmentBudget = 500'000;  // of all messages together
// Dependencies on all iterations of longer phases do not stream: looking at them is quadratic.
constexpr int32_t kStreamingFanIn = 64;

enum class Event : uint8_t { kBegin, kNext, kArrive, kEnd };

struct Entry {
  double time;
  uint64_t order;  // first come, first served among equal times
  int32_t rank, step;
  int32_t segment;
  Event event;
  bool operator>(const Entry& other) const {
    return time != other.time ? time > other.time : order > other.order;
  }
};

struct StepState {
  int16_t started = 0;
  int16_t done = 0;
  int16_t segments = 1;
  int16_t depth = 0;       // messages in the longest chain up to here
  bool beginning = false;  // a segment is on its way to or on the first processor
};

struct PhaseState {
  int32_t complete = 0;    // iterations
  int32_t first_open = 0;  // iteration
  int16_t depth = 0;       // deepest iteration
};

struct RankState {
  std::vector<StepState> steps;
  std::vector<PhaseState> phases;
  std::vector<std::vector<std::pair<int32_t, Dep>>> dependents;  // of a phase: phases, and how
  double finish = 0;
};

class Player {
 public:
  Player(std::span<const Steps> steps, const std::vector<std::vector<Meeting>>& meetings,
         const Basis& basis, const Fold& actors, std::span<const uint64_t> offsets)
      : steps_(steps),
        meetings_(meetings),
        basis_(basis),
        offsets_(offsets),
        resources_(basis, actors) {
    int64_t messages = 1;
    for (const Steps& s : steps)
      for (const Phase& p : s.schedule().phases)
        if (p.kind == Kind::kSend) messages += p.repeat;
    most_segments_ = std::clamp<int64_t>(kSegmentBudget / messages, 1, kMostSegments);
    for (const Steps& s : steps) ranks_.push_back(initial(s));
  }

  // Notes the steps of one actor.
  void trace(int32_t actor) {
    traced_ = actor;
    trace_.resize(static_cast<size_t>(at(actor).count()));
    for (size_t i = 0; i < trace_.size(); i++) trace_[i] = {static_cast<int32_t>(i), -1, 0};
  }

  Status play(Simulation* result) {
    for (int32_t r = 0; r < size(); r++)
      for (int32_t phase = 0; phase < at(r).phases(); phase++) look_at_window(r, phase, 0);
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      handle(entry);
    }
    for (int32_t r = 0; r < size(); r++) {
      const RankState& rank = ranks_[static_cast<size_t>(r)];
      for (size_t p = 0; p < rank.phases.size(); p++) {
        if (rank.phases[p].complete != at(r).phase(static_cast<int32_t>(p)).repeat)
          return {tbcclInternalError,
                  formatted("the simulation of {} gets stuck at rank {}, phase {}",
                            at(r).schedule().algorithm, r, p)};
        result->steps = std::max(result->steps, int{rank.phases[p].depth});
      }
      result->finish.push_back(rank.finish);
      result->ns = std::max(result->ns, rank.finish);
    }
    result->trace = std::move(trace_);
    return {};
  }

 private:
  int32_t size() const { return static_cast<int32_t>(steps_.size()); }
  const Steps& at(int32_t rank) const { return steps_[static_cast<size_t>(rank)]; }
  StepState& state(int32_t rank, int32_t step) {
    return ranks_[static_cast<size_t>(rank)].steps[static_cast<size_t>(step)];
  }
  PhaseState& phase_state(int32_t rank, int32_t phase) {
    return ranks_[static_cast<size_t>(rank)].phases[static_cast<size_t>(phase)];
  }
  const Phase& phase(int32_t rank, int32_t step) const {
    return at(rank).phase(at(rank).phase_of(step));
  }
  const Meeting& meeting(int32_t rank, int32_t step) const {
    return meetings_[static_cast<size_t>(rank)][static_cast<size_t>(step)];
  }
  uint64_t begin(int32_t rank, int32_t step) const {
    const int32_t first = phase(rank, step).piece.at(at(rank).iteration_of(step));
    return offsets_[static_cast<size_t>(first)];
  }
  uint64_t bytes(int32_t rank, int32_t step) const {
    const Phase& p = phase(rank, step);
    const int32_t first = p.piece.at(at(rank).iteration_of(step));
    return offsets_[static_cast<size_t>(first + p.pieces)] - offsets_[static_cast<size_t>(first)];
  }

  RankState initial(const Steps& s) const {
    RankState rank;
    rank.steps.resize(static_cast<size_t>(s.count()));
    rank.phases.resize(static_cast<size_t>(s.phases()));
    rank.dependents.resize(static_cast<size_t>(s.phases()));
    for (int32_t number = 0; number < s.phases(); number++) {
      const Phase& p = s.phase(number);
      for (const Dep& dep : p.deps)
        rank.dependents[static_cast<size_t>(dep.phase)].emplace_back(number, dep);
      // By the range's average length, so that both ends of a message agree also where ranks that
      // behave alike have pieces of slightly different lengths.
      const uint64_t length = offsets_.back() / static_cast<uint64_t>(s.schedule().pieces) *
                              static_cast<uint64_t>(p.pieces);
      const auto wanted = static_cast<int64_t>((length + kSegmentBytes - 1) / kSegmentBytes);
      for (int32_t i = 0; i < p.repeat; i++) {
        rank.steps[static_cast<size_t>(s.number(number, i))].segments =
            static_cast<int16_t>(std::clamp<int64_t>(wanted, 1, most_segments_));
      }
    }
    return rank;
  }

  // Whether what segment `segment` of `step` needs is there.
  bool ready(int32_t rank, int32_t step, int32_t segment) {
    const Steps& s = at(rank);
    const int32_t number = s.phase_of(step), i = s.iteration_of(step);
    const int32_t open = phase_state(rank, number).first_open;
    if (i < open || i >= open + kOpenIterations) return false;
    const uint64_t end = begin(rank, step) + bytes(rank, step) *
                                                 static_cast<uint64_t>(segment + 1) /
                                                 static_cast<uint64_t>(state(rank, step).segments);
    for (const Dep& dep : s.phase(number).deps) {
      const int32_t repeat = s.phase(dep.phase).repeat, on = i + dep.shift;
      if (dep.shift != kAllIterations) {
        if (on >= 0 && on < repeat && !reached(rank, s.number(dep.phase, on), dep, end))
          return false;
      } else if (phase_state(rank, dep.phase).complete < repeat) {
        if (repeat > kStreamingFanIn) return false;
        for (int32_t k = 0; k < repeat; k++)
          if (!reached(rank, s.number(dep.phase, k), dep, end)) return false;
      }
    }
    return true;
  }

  // Whether `on` has done all its bytes below vector offset `end`.
  bool reached(int32_t rank, int32_t on, const Dep& dep, uint64_t end) {
    const StepState& s = state(rank, on);
    if (s.done == s.segments) return true;
    const uint64_t first = begin(rank, on), length = bytes(rank, on);
    if (dep.kind == DepKind::kReleased || length == 0) return false;
    return first + length * static_cast<uint64_t>(s.done) / static_cast<uint64_t>(s.segments) >=
           std::min(end, first + length);
  }

  void push(double time, int32_t rank, int32_t step, int32_t segment, Event event) {
    queue_.push({time, order_++, rank, step, segment, event});
  }

  // Begins the next segment of a step if it can. A message is looked at from its sending end.
  void look_at(int32_t rank, int32_t step, double now) {
    Meeting other = meeting(rank, step);
    if (is_receive(phase(rank, step).kind)) {
      std::swap(rank, other.rank);
      std::swap(step, other.step);
    }
    StepState& s = state(rank, step);
    if (s.beginning || s.started == s.segments || !ready(rank, step, s.started)) return;
    if (other.rank >= 0 && !ready(other.rank, other.step, s.started)) return;
    s.beginning = true;
    if (s.started == 0) note_begin(rank, step, other, now);
    push(now, rank, step, s.started++, Event::kBegin);
  }

  void look_at_window(int32_t rank, int32_t number, double now) {
    const int32_t first = phase_state(rank, number).first_open;
    const int32_t end = std::min(first + kOpenIterations, at(rank).phase(number).repeat);
    for (int32_t i = first; i < end; i++) look_at(rank, at(rank).number(number, i), now);
  }

  void note_begin(int32_t rank, int32_t step, const Meeting& other, double now) {
    if (rank == traced_) trace_[static_cast<size_t>(step)].begin = now;
    if (other.rank >= 0 && other.rank == traced_)
      trace_[static_cast<size_t>(other.step)].begin = now;
  }

  double segment_bytes(const Entry& e) {
    return static_cast<double>(bytes(e.rank, e.step)) / state(e.rank, e.step).segments;
  }

  void handle(const Entry& e) {
    const Meeting& to = meeting(e.rank, e.step);
    switch (e.event) {
      case Event::kBegin:
        return begin_segment(e, to);
      case Event::kNext:
        state(e.rank, e.step).beginning = false;
        return look_at(e.rank, e.step, e.time);
      case Event::kArrive: {
        const double combine = phase(to.rank, to.step).kind == Kind::kRecvReduce ? basis_.gamma : 0;
        const double work = message_ns(e) + segment_bytes(e) * (basis_.cpu_byte + combine);
        return push(resources_.compute(to.rank, e.time, work), e.rank, e.step, e.segment,
                    Event::kEnd);
      }
      case Event::kEnd:
        end(e.rank, e.step, e.time);
        if (to.rank >= 0) end(to.rank, to.step, e.time);
    }
  }

  double message_ns(const Entry& e) const { return e.segment == 0 ? basis_.cpu_message : 0; }

  void begin_segment(const Entry& e, const Meeting& to) {
    const Phase& p = phase(e.rank, e.step);
    const double length = segment_bytes(e);
    double left;  // when the processor is done with it
    if (p.kind == Kind::kSend) {
      const double work = message_ns(e) + length * basis_.cpu_byte;
      left = resources_.compute(e.rank, e.time, work);
      push(resources_.carry(e.rank, p.peer.at(at(e.rank).iteration_of(e.step)), to.rank,
                            left - work, left, length),
           e.rank, e.step, e.segment, Event::kArrive);
    } else {
      const int combinations = p.kind == Kind::kFold ? std::max(1, p.sources - 1) : 1;
      const bool stays = p.kind == Kind::kCopy && p.src == p.dst;
      left = resources_.compute(e.rank, e.time, stays ? 0 : length * basis_.gamma * combinations);
      push(left, e.rank, e.step, e.segment, Event::kEnd);
    }
    if (e.segment + 1 < state(e.rank, e.step).segments)
      push(left, e.rank, e.step, e.segment, Event::kNext);
  }

  // One more segment of a step is complete.
  void end(int32_t rank, int32_t step, double now) {
    StepState& s = state(rank, step);
    const int32_t number = at(rank).phase_of(step), i = at(rank).iteration_of(step);
    s.done++;
    ranks_[static_cast<size_t>(rank)].finish = now;
    if (s.done == s.segments) complete(rank, step, now);
    for (const auto& [dependent, dep] :
         ranks_[static_cast<size_t>(rank)].dependents[static_cast<size_t>(number)]) {
      if (dep.shift == kAllIterations) {
        look_at_window(rank, dependent, now);
      } else if (const int32_t j = i - dep.shift; j >= 0 && j < at(rank).phase(dependent).repeat) {
        look_at(rank, at(rank).number(dependent, j), now);
      }
    }
  }

  void complete(int32_t rank, int32_t step, double now) {
    const int32_t number = at(rank).phase_of(step);
    PhaseState& p = phase_state(rank, number);
    StepState& s = state(rank, step);
    if (rank == traced_) trace_[static_cast<size_t>(step)].end = now;
    s.depth = depth(rank, step);
    p.depth = std::max(p.depth, s.depth);
    p.complete++;
    const int32_t before = p.first_open, repeat = at(rank).phase(number).repeat;
    while (p.first_open < repeat) {
      const StepState& next = state(rank, at(rank).number(number, p.first_open));
      if (next.done < next.segments) break;
      p.first_open++;
    }
    // What the window has come to reach.
    for (int32_t i = before + kOpenIterations; i < std::min(p.first_open + kOpenIterations, repeat);
         i++)
      look_at(rank, at(rank).number(number, i), now);
  }

  int16_t depth(int32_t rank, int32_t step) {
    const Steps& s = at(rank);
    const int32_t i = s.iteration_of(step);
    const Phase& p = phase(rank, step);
    int16_t most = 0;
    for (const Dep& dep : p.deps) {
      const int32_t on = i + dep.shift;
      if (dep.shift == kAllIterations)
        most = std::max(most, phase_state(rank, dep.phase).depth);
      else if (on >= 0 && on < s.phase(dep.phase).repeat)
        most = std::max(most, state(rank, s.number(dep.phase, on)).depth);
    }
    if (!is_receive(p.kind)) return most;
    // The send is completed first, see handle().
    const Meeting& from = meeting(rank, step);
    return static_cast<int16_t>(std::max<int>(most, state(from.rank, from.step).depth + 1));
  }

  std::span<const Steps> steps_;
  const std::vector<std::vector<Meeting>>& meetings_;
  const Basis& basis_;
  std::span<const uint64_t> offsets_;
  Resources resources_;
  int64_t most_segments_ = 1;
  std::vector<RankState> ranks_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  uint64_t order_ = 0;
  int32_t traced_ = -1;
  std::vector<TracedStep> trace_;
};

int64_t sends(const Schedule& s) {
  int64_t messages = 0;
  for (const Phase& p : s.phases)
    if (p.kind == Kind::kSend) messages += p.repeat;
  return messages;
}

int64_t local_steps(const Schedule& s) {
  int64_t steps = 0;
  for (const Phase& p : s.phases)
    if (!is_message(p.kind)) steps += p.repeat;
  return steps;
}

Status too_many(const std::string& algorithm, const char* what, int64_t number, int64_t limit) {
  return {tbcclInvalidArgument, formatted("{} takes {} {} here, and no more than {} are simulated",
                                          algorithm, number, what, limit)};
}

// Finds what is to be played: all ranks, or one of each class.
Status cast(std::span<const Schedule> all, const Collective& collective, const Basis& basis,
            const SimulateOptions& options, Simulation* result, Fold* actors,
            std::vector<Steps>* steps, std::vector<std::vector<Meeting>>* meetings) {
  for (const Schedule& s : all) result->messages += sends(s);
  const bool folded = result->messages > options.fold_above && fold(all, basis, actors, meetings);
  if (!folded) *actors = unfolded(basis);
  int64_t played = 0, local = 0;
  for (int32_t rank : actors->ranks) {
    played += sends(all[static_cast<size_t>(rank)]);
    local += local_steps(all[static_cast<size_t>(rank)]);
  }
  if (played > options.most_messages)
    return too_many(all[0].algorithm, "messages", played, options.most_messages);
  if (local > options.most_local)
    return too_many(all[0].algorithm, "local steps", local, options.most_local);
  for (int32_t rank : actors->ranks) {
    const Schedule& s = all[static_cast<size_t>(rank)];
    if (Status status = check_shape(s, collective); !status.ok()) return status;
    steps->emplace_back(s);
  }
  result->actors = static_cast<int32_t>(actors->ranks.size());
  return folded ? Status() : match(*steps, meetings);
}

}  // namespace

Status simulate(std::span<const Schedule> all_ranks, const Collective& collective,
                const Basis& basis, uint64_t count, uint32_t element, Simulation* result,
                const SimulateOptions& options) {
  *result = {};
  if (all_ranks.empty() || all_ranks.size() != static_cast<size_t>(basis.size))
    return {tbcclInternalError, "a simulation needs one schedule for each rank of the basis"};
  Fold actors;
  std::vector<Steps> steps;
  std::vector<std::vector<Meeting>> meetings;
  if (Status s = cast(all_ranks, collective, basis, options, result, &actors, &steps, &meetings);
      !s.ok())
    return s;
  std::vector<uint64_t> offsets(static_cast<size_t>(all_ranks[0].pieces) + 1);
  block_offsets(all_ranks[0], count, element, offsets);
  Player player(steps, meetings, basis, actors, offsets);
  if (options.trace >= 0 && options.trace < basis.size)
    player.trace(actors.class_of[static_cast<size_t>(options.trace)]);
  if (Status s = player.play(result); !s.ok()) return s;
  std::vector<double> finish;
  for (int32_t actor : actors.class_of)
    finish.push_back(result->finish[static_cast<size_t>(actor)]);
  result->finish = std::move(finish);
  return {};
}

}  // namespace tbccl::schedule
