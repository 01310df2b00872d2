#include "plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "perf/types.h"

namespace soak {
namespace {

using tbccl::perf::all_operators;
using tbccl::perf::all_types;
using tbccl::perf::Op;

constexpr size_t kMostSlots = 5;       // alive at a time
constexpr size_t kMostPersistent = 8;  // alive at a time

bool combines(tbcclOperation_t operation) {
  switch (operation) {
    case tbcclOpAllReduce:
    case tbcclOpReduce:
    case tbcclOpReduceScatter:
    case tbcclOpReduceScatterV:
    case tbcclOpScan:
    case tbcclOpExScan:
      return true;
    default:
      return false;
  }
}

bool varies(tbcclOperation_t operation) {
  return operation >= tbcclOpAllGatherV && operation <= tbcclOpScatterV;
}

const std::vector<tbcclOperation_t> kCollectives = {
    tbcclOpAllReduce,     tbcclOpBroadcast,      tbcclOpBarrier,   tbcclOpReduce,  tbcclOpAllGather,
    tbcclOpReduceScatter, tbcclOpAllToAll,       tbcclOpGather,    tbcclOpScatter, tbcclOpSendRecv,
    tbcclOpAllGatherV,    tbcclOpReduceScatterV, tbcclOpAllToAllV, tbcclOpGatherV, tbcclOpScatterV,
    tbcclOpScan,          tbcclOpExScan};

}  // namespace

int Slot::rank_of(int world_rank) const {
  const auto found = std::find(members.begin(), members.end(), world_rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

Plan::Plan(uint64_t seed, int ranks) : draw_(seed) {
  Slot world;
  world.alive = true;
  for (int rank = 0; rank < ranks; ++rank) world.members.push_back(rank);
  slots_.push_back(world);
}

Step Plan::next() {
  Step step;
  step.seed = draw_.word();
  const uint64_t what = draw_.below(100);
  if (what < 20) {
    step.action = Action::kBlocking;
    draw_many(step, 3);
  } else if (what < 42) {
    step.action = Action::kBatch;
    draw_many(step, 6);
  } else if (what < 45) {
    draw_crowd(step);
  } else if (what < 57) {
    step.action = Action::kGroup;
    step.requests = draw_.chance(50);
    draw_many(step, 6);
  } else if (what < 60) {
    draw_burst(step);
  } else if (what < 67) {
    step.action = Action::kThreads;
    draw_many(step, 8);
  } else if (what < 83) {
    draw_persistent(step);
  } else if (what < 88) {
    draw_split(step);
  } else if (what < 92) {
    draw_destroy(step);
  }
  return step;
}

std::vector<int> Plan::living() const {
  std::vector<int> all;
  for (int slot = 0; slot < slots(); ++slot) {
    if (slots_[static_cast<size_t>(slot)].alive) all.push_back(slot);
  }
  return all;
}

int Plan::draw_slot() { return draw_.one_of(living()); }

uint64_t Plan::draw_count() {
  const uint64_t kind = draw_.below(100);
  if (kind < 12) return 0;
  if (kind < 40) return 1 + draw_.below(16);
  if (kind < 70) return 1 + draw_.below(700);
  if (kind < 96) return 1 + draw_.below(9000);
  return 1 + draw_.below(60000);
}

void Plan::draw_reduction(Call& call) {
  const auto types = all_types();
  const auto operators = all_operators();
  if (draw_.chance(10)) {
    call.combining = Combining::kAffine;
    call.type = *tbccl::perf::find_type("uint64");
    call.op = *tbccl::perf::find_operator("sum");
    return;
  }
  do {
    call.type = types[draw_.below(types.size())];
    call.op = operators[draw_.below(operators.size())];
  } while (!tbccl::perf::is_legal(call.type, call.op.op));
  call.combining = call.op.op == Op::kMulSum ? Combining::kScaled : Combining::kBuiltIn;
}

Call Plan::draw_call(int slot) {
  Call call;
  call.slot = slot;
  call.ranks = slots_[static_cast<size_t>(slot)].size();
  if (draw_.chance(15)) return draw_message(slot);
  call.operation = draw_.one_of(kCollectives);
  call.type = all_types()[draw_.below(all_types().size())];
  if (combines(call.operation)) draw_reduction(call);
  call.root = draw_.number(call.ranks);
  call.seed = draw_.word();
  call.variety = draw_.word();
  call.distance = draw_.number(call.ranks);
  call.any_source = draw_.chance(20) && call.operation == tbcclOpSendRecv;
  call.tag = ++tag_;
  const bool all_equal = !varies(call.operation) || draw_.chance(20);
  call.counts.push_back(call.operation == tbcclOpBarrier ? 0 : draw_count());
  for (int block = 1; block < call.ranks && varies(call.operation); ++block) {
    call.counts.push_back(all_equal ? call.counts.front() : draw_count());
  }
  return call;
}

Call Plan::draw_message(int slot) {
  Call call;
  call.operation = tbcclOpSend;
  call.slot = slot;
  call.ranks = slots_[static_cast<size_t>(slot)].size();
  call.type = all_types()[draw_.below(all_types().size())];
  call.from = draw_.number(call.ranks);
  call.to = draw_.number(call.ranks);
  call.any_source = draw_.chance(25);
  call.seed = draw_.word();
  call.variety = draw_.word();
  call.tag = ++tag_;
  call.counts = {draw_count()};
  return call;
}

void Plan::draw_many(Step& step, int most) {
  const int slot = draw_slot(), other = draw_slot(), third = draw_slot();
  const int calls = 1 + draw_.number(most);
  for (int i = 0; i < calls; ++i) {
    const uint64_t which = draw_.below(6);
    step.calls.push_back(draw_call(which < 3 ? slot : (which < 5 ? other : third)));
    Call& call = step.calls.back();
    const bool blocks = step.action == Action::kBlocking || step.action == Action::kThreads;
    // A blocking send to oneself, or a ring of one step, would wait for ever.
    if (blocks && call.operation == tbcclOpSend && call.from == call.to) step.calls.pop_back();
  }
}

// Everybody sends to one rank, which takes them as they come.
void Plan::draw_crowd(Step& step) {
  step.action = Action::kBatch;
  const Call first = draw_message(draw_slot());
  for (int from = 0; from < first.ranks; ++from) {
    Call call = first;
    call.from = from;
    call.any_source = true;
    step.calls.push_back(call);
  }
}

// Small collectives of one kind in a group, which the library may carry out as one.
void Plan::draw_burst(Step& step) {
  step.action = Action::kGroup;
  step.requests = draw_.chance(50);
  Call first = draw_call(draw_slot());
  first.operation = draw_.chance(70) ? tbcclOpAllReduce : tbcclOpBroadcast;
  first.any_source = false;
  draw_reduction(first);
  if (first.operation == tbcclOpBroadcast) first.combining = Combining::kNothing;
  const int calls = 2 + draw_.number(8);
  for (int i = 0; i < calls; ++i) {
    Call call = first;
    call.counts = {draw_.below(1 + 4096 / first.type.bytes)};
    call.seed = draw_.word();
    call.variety = draw_.word();
    step.calls.push_back(call);
    if (draw_.chance(20)) step.calls.push_back(draw_message(first.slot));
  }
}

std::vector<size_t> Plan::persistent_alive() const {
  std::vector<size_t> all;
  for (size_t i = 0; i < persistent_.size(); ++i) {
    if (persistent_alive_[i]) all.push_back(i);
  }
  return all;
}

void Plan::draw_persistent(Step& step) {
  const std::vector<size_t> alive = persistent_alive();
  if (alive.empty() || (alive.size() < kMostPersistent && draw_.chance(30))) {
    step.action = Action::kMake;
    Call call = draw_call(draw_slot());
    // Starts of several ranks meet by their tags alone.
    call.any_source = false;
    step.persistent = {persistent_.size()};
    step.calls = {call};
    persistent_.push_back(call);
    persistent_alive_.push_back(true);
    return;
  }
  if (draw_.chance(15)) {
    step.action = Action::kFree;
    step.persistent = {draw_.one_of(alive)};
    persistent_alive_[step.persistent.front()] = false;
    return;
  }
  step.action = Action::kStart;
  step.group = draw_.chance(30);
  for (const size_t number : alive) {
    if (draw_.chance(40)) step.persistent.push_back(number);
  }
}

void Plan::draw_split(Step& step) {
  if (living().size() >= kMostSlots) return draw_destroy(step);
  step.action = Action::kSplit;
  step.slot = draw_slot();
  const Slot parent = slots_[static_cast<size_t>(step.slot)];
  step.duplicate = draw_.chance(25);
  std::map<int, std::vector<std::tuple<int, int, int>>> groups;
  for (int rank = 0; rank < parent.size(); ++rank) {
    const int color = draw_.number(3) - 1, key = draw_.number(4);
    step.colors.push_back(step.duplicate ? 0 : color);
    step.keys.push_back(step.duplicate ? 0 : key);
    if (step.colors.back() < 0) continue;
    groups[step.colors.back()].emplace_back(step.keys.back(), rank,
                                            parent.members[static_cast<size_t>(rank)]);
  }
  step.made.assign(2, -1);
  for (auto& [color, group] : groups) {
    std::sort(group.begin(), group.end());
    Slot child;
    child.alive = true;
    for (const auto& member : group) child.members.push_back(std::get<2>(member));
    step.made[static_cast<size_t>(color)] = slots();
    slots_.push_back(child);
  }
}

// Not the first one: there is always a communicator of all.
void Plan::draw_destroy(Step& step) {
  std::vector<int> all = living();
  all.erase(all.begin());
  if (all.empty()) return;
  step.action = Action::kDestroy;
  step.slot = draw_.one_of(all);
  slots_[static_cast<size_t>(step.slot)].alive = false;
  for (size_t i = 0; i < persistent_.size(); ++i) {
    if (persistent_[i].slot == step.slot) persistent_alive_[i] = false;
  }
}

}  // namespace soak
