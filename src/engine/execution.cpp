#include "engine/execution.h"

#include <algorithm>
#include <new>

#include "schedule/steps.h"

namespace tbccl::engine {

using schedule::Dep;
using schedule::DepKind;
using schedule::Kind;
using schedule::Phase;

namespace {

constexpr std::align_val_t kAlignment{64};
// More than any machine has: not even asked for.
constexpr uint64_t kMostScratch = uint64_t{1} << 46;

bool is_local(Kind kind) {
  return kind == Kind::kFold || kind == Kind::kCopy || kind == Kind::kScale;
}

}  // namespace

void Execution::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

void Execution::begin(const Call& call, uint32_t element, const Site& site) {
  scratch_wanted_ = 0;
  program_.prepare(call.plan, call.count, call.blocks, element);
  site_ = site;
  reduction_ = call.reduction;
  // Schedules never write to kInput.
  input_ = static_cast<std::byte*>(const_cast<void*>(call.input));
  output_ = static_cast<std::byte*>(call.output);
  element_ = element;
  stopped_ = false;
  const auto slots = static_cast<uint64_t>(program_.schedule().scratch_slots);
  const bool overflows = slots > 0 && program_.slot_bytes() > UINT64_MAX / slots;
  const uint64_t scratch = overflows ? UINT64_MAX : program_.slot_bytes() * slots;
  scratch_wanted_ = scratch;
  if (scratch > kMostScratch) throw std::bad_alloc();
  if (scratch > scratch_bytes_) {
    scratch_.reset();
    scratch_bytes_ = 0;
    scratch_.reset(static_cast<std::byte*>(::operator new(scratch, kAlignment)));
    scratch_bytes_ = scratch;
  }
  if (steps_.size() < program_.steps()) steps_.resize(program_.steps());
  states_.assign(static_cast<size_t>(program_.phases()), {});
  marked_.clear();
  phases_left_ = 0;
  for (int p = 0; p < program_.phases(); ++p) {
    if (program_.phase(p).repeat <= 0) continue;
    ++phases_left_;
    for (int32_t i = 0; i < program_.window(p); ++i) enter(p, i);
    mark(p);
  }
}

void Execution::enter(int p, int32_t i) {
  const Phase& phase = program_.phase(p);
  Step& s = step(p, i);
  s.phase = p;
  s.iteration = i;
  s.lo = program_.offset(phase.piece.at(i));
  s.hi = program_.offset(phase.piece.at(i) + phase.pieces);
  s.done = s.open = s.lo;
  s.src = schedule::has_src(phase) ? beginning(phase.src, phase, i) : nullptr;
  s.dst = schedule::has_dst(phase) ? beginning(phase.dst, phase, i) : nullptr;
  s.send = nullptr;
  s.recv = nullptr;
  s.posted = s.complete = false;
  s.released = phase.kind != Kind::kSend;
  s.beyond.clear();
  states_[p].entered = i + 1;
}

void Execution::mark(int p) {
  if (states_[p].marked) return;
  states_[p].marked = true;
  marked_.push_back(static_cast<uint16_t>(p));
}

void Execution::advanced(int p) {
  mark(p);
  for (const uint16_t dependent : program_.dependents(p)) mark(dependent);
}

bool Execution::settle(uint64_t* budget) {
  bool finished = true;
  do {
    for (size_t next = 0; next < marked_.size(); ++next) {  // grows while it is walked
      const int p = marked_[next];
      states_[p].marked = false;
      evaluate(p);
    }
    marked_.clear();
    finished = compute(budget);
  } while (!marked_.empty());
  return finished;
}

// Starts and opens what the dependencies allow. Ends because steps only move forward.
void Execution::evaluate(int p) {
  PhaseState& state = states_[p];
  for (int32_t i = state.first; i < state.entered && !stopped_; ++i) {
    Step& s = step(p, i);
    if (s.complete) continue;
    const Limit limit = limit_of(s);
    const bool may_work = s.lo < s.hi ? limit.offset > s.lo : limit.all;
    if (i == state.started) {
      if (!may_work) break;
      ++state.started;
    }
    if (may_work) act(s, limit.offset);
  }
  retire(p);
}

void Execution::retire(int p) {
  PhaseState& state = states_[p];
  const int32_t repeat = program_.phase(p).repeat;
  bool moved = false;
  while (state.first < state.entered) {
    const Step& s = step(p, state.first);
    if (!s.complete || !s.released) break;
    ++state.first;
    moved = true;
    if (state.entered < repeat) enter(p, state.entered);
  }
  if (!moved) return;
  if (state.first == repeat) {
    --phases_left_;
  } else {
    mark(p);
  }
}

Execution::Limit Execution::limit_of(const Step& s) {
  Limit limit{s.hi, true};
  for (const Dep& dep : program_.phase(s.phase).deps) {
    if (dep.shift == schedule::kAllIterations) {
      narrow_all(dep, &limit);
    } else {
      narrow(dep, s.iteration + dep.shift, &limit);
    }
  }
  return limit;
}

// By iteration j of the phase that is depended on.
void Execution::narrow(const Dep& dep, int32_t j, Limit* limit) {
  const Phase& phase = program_.phase(dep.phase);
  const PhaseState& state = states_[dep.phase];
  if (j < state.first || j >= phase.repeat) return;
  if (j >= state.entered) {
    limit->all = false;
    const uint64_t begins = program_.offset(phase.piece.at(j));
    limit->offset = dep.kind == DepKind::kReleased ? 0 : std::min(limit->offset, begins);
    return;
  }
  const Step& s = step(dep.phase, j);
  if (dep.kind == DepKind::kReleased) {
    if (s.complete && s.released) return;
    limit->offset = 0;
  } else {
    if (s.complete) return;
    limit->offset = std::min(limit->offset, s.done);
  }
  limit->all = false;
}

void Execution::narrow_all(const Dep& dep, Limit* limit) {
  const PhaseState& state = states_[dep.phase];
  for (int32_t j = state.first; j < state.entered; ++j) narrow(dep, j, limit);
  if (state.entered >= program_.phase(dep.phase).repeat) return;
  limit->all = false;
  const uint64_t begins = program_.lowest_from(dep.phase, state.entered);
  limit->offset = dep.kind == DepKind::kReleased ? 0 : std::min(limit->offset, begins);
}

void Execution::act(Step& s, uint64_t limit) {
  switch (program_.phase(s.phase).kind) {
    case Kind::kSend:
      send(s, limit);
      return;
    case Kind::kRecv:
    case Kind::kRecvReduce:
      receive(s, limit);
      return;
    default:
      s.open = std::max(s.open, limit);
      s.posted = true;
      if (s.lo == s.hi) {
        s.complete = true;
        advanced(s.phase);
      }
  }
}

link::Key Execution::key(const Phase& phase, int32_t iteration) const {
  return {site_.comm, link::Class::kCollective, static_cast<uint32_t>(phase.tag.at(iteration)),
          site_.number};
}

void Execution::send(Step& s, uint64_t limit) {
  const Phase& phase = program_.phase(s.phase);
  if (s.posted && limit <= s.open) return;
  const bool first = !s.posted;
  s.posted = true;
  s.open = s.done = limit;
  s.complete = limit == s.hi;  // handed over; released follows
  if (first) {
    link::SendSpec spec;
    spec.key = key(phase, s.iteration);
    spec.data = source(s, s.lo);
    spec.total = s.hi - s.lo;
    spec.available = limit - s.lo;
    spec.fingerprint = site_.fingerprint;
    spec.turn = site_.turn;
    spec.step = program_.depth(s.phase) + static_cast<uint32_t>(s.iteration);
    spec.owner = site_.owner;
    spec.index = program_.first_step(s.phase) +
                 static_cast<uint32_t>(s.iteration % program_.window(s.phase));
    link::Send* const send =
        site_.links->post_send((*site_.peers)[phase.peer.at(s.iteration)], spec);
    if (send == nullptr) {
      s.released = true;
    } else if (!s.released) {
      s.send = send;
    }
  } else if (s.send != nullptr) {
    site_.links->extend(s.send, limit - s.lo);
  }
  advanced(s.phase);
}

void Execution::receive(Step& s, uint64_t limit) {
  const Phase& phase = program_.phase(s.phase);
  limit = std::min(limit, ring_limit(s));
  if (s.posted && limit <= s.open) return;
  const bool first = !s.posted;
  s.posted = true;
  s.open = limit;
  if (!first) {
    if (s.recv != nullptr) site_.links->extend(s.recv, limit - s.lo);
    return;
  }
  link::RecvSpec spec;
  spec.key = key(phase, s.iteration);
  spec.total = s.hi - s.lo;
  spec.granted = limit - s.lo;
  spec.fingerprint = site_.fingerprint;
  spec.unit = element_;
  spec.owner = site_.owner;
  spec.index =
      program_.first_step(s.phase) + static_cast<uint32_t>(s.iteration % program_.window(s.phase));
  link::Recv* const recv = site_.links->post_recv((*site_.peers)[phase.peer.at(s.iteration)], spec);
  if (!s.complete) s.recv = recv;
}

// A slot used as a ring is granted no further than its length beyond what has been consumed.
uint64_t Execution::ring_limit(const Step& s) {
  const Phase& phase = program_.phase(s.phase);
  if (phase.consumer < 0 || s.hi - s.lo <= program_.slot_bytes()) return s.hi;
  const PhaseState& state = states_[phase.consumer];
  const int32_t i = program_.phase(phase.consumer).repeat == 1 ? 0 : s.iteration;
  if (i < state.first) return s.hi;
  const uint64_t consumed = i < state.entered ? step(phase.consumer, i).done : s.lo;
  return std::min(s.hi, std::max(consumed, s.lo) + program_.slot_bytes());
}

void Execution::note_done(Step& s, uint64_t from, uint64_t to) {
  if (from != s.done) {
    const auto at = std::lower_bound(s.beyond.begin(), s.beyond.end(), std::pair(from, to));
    s.beyond.insert(at, {from, to});
    return;
  }
  s.done = to;
  size_t reached = 0;
  while (reached < s.beyond.size() && s.beyond[reached].first == s.done) {
    s.done = s.beyond[reached++].second;
  }
  if (reached > 0) {
    s.beyond.erase(s.beyond.begin(), s.beyond.begin() + static_cast<std::ptrdiff_t>(reached));
  }
}

void Execution::released(uint32_t index) {
  Step& s = steps_[index];
  s.send = nullptr;
  s.released = true;
  advanced(s.phase);
}

void Execution::withdraw() {
  stopped_ = true;
  for (uint32_t i = 0; i < program_.steps(); ++i) {
    Step& s = steps_[i];
    if (s.send != nullptr) site_.links->withdraw(s.send);
    if (s.recv != nullptr) site_.links->withdraw(s.recv);
    s.send = nullptr;
    s.recv = nullptr;
  }
}

std::vector<int> Execution::waiting_for() const {
  std::vector<int> ranks;
  for (int p = 0; p < program_.phases(); ++p) {
    const Phase& phase = program_.phase(p);
    if (is_local(phase.kind)) continue;
    for (int32_t i = states_[p].first; i < states_[p].started; ++i) {
      const Step& s = steps_[program_.first_step(p) + i % program_.window(p)];
      if (!s.complete || !s.released) ranks.push_back(phase.peer.at(i));
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace tbccl::engine
