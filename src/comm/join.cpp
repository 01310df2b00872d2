#include "comm/join.h"

#include <algorithm>
#include <string_view>

#include "base/hash.h"
#include "engine/joint.h"

namespace tbccl::comm {
namespace {

uint64_t bytes_of(const engine::Call& call) {
  return call.count * reduce::size_of(call.reduction.type);
}

bool joinable(const engine::Call& call) {
  if (call.kind != engine::RequestKind::kSchedule || call.plan == nullptr) return false;
  const std::string_view operation = call.operation;
  const bool reduces = operation == "all-reduce";
  if (!reduces && operation != "broadcast") return false;
  // What a user's function, or another factor on each rank, makes of several calls is not known.
  if (call.reduction.user != nullptr || call.reduction.scaled) return false;
  // A call that waits for its condition must not hold others back.
  if (call.start_when != tbcclStartNow) return false;
  return bytes_of(call) <= kMostJoined && call.plan->schedule.pieces == 1;
}

}  // namespace

bool joins(const engine::Call& first, const engine::Call& next) {
  return joinable(first) && joinable(next) &&
         std::string_view(first.operation) == std::string_view(next.operation) &&
         first.peer == next.peer && first.plan->hash == next.plan->hash &&
         first.reduction.type == next.reduction.type && first.reduction.op == next.reduction.op;
}

engine::Call joined(const std::vector<const engine::Call*>& calls) {
  // Of a call that has bytes: the others' plans do not know whether they are in place.
  const auto model = std::find_if(calls.begin(), calls.end(),
                                  [](const engine::Call* call) { return call->count > 0; });
  engine::Call call = model == calls.end() ? *calls.front() : **model;
  const bool in_place = call.count > 0 && call.input == call.output;
  Fingerprint print;
  print.add("group").add(calls.size());
  std::vector<engine::Joint::Part> parts;
  uint64_t count = 0, timeout = 0;
  bool calls_back = false;
  for (const engine::Call* part : calls) {
    parts.push_back({part->input, part->output, part->count, bytes_of(*part), part->callback,
                     part->callback_context});
    count += part->count;
    print.add(part->fingerprint);
    // They start together: the first one's time to be over ends all.
    if (part->timeout_ns != 0 && (timeout == 0 || part->timeout_ns < timeout)) {
      timeout = part->timeout_ns;
    }
    calls_back = calls_back || part->callback != nullptr;
  }
  call.joint = std::make_shared<engine::Joint>(std::move(parts), in_place, call.describe);
  call.input = call.joint->input();
  call.output = call.joint->output();
  call.count = count;
  call.timeout_ns = timeout;
  call.fingerprint = print.value();
  call.describe = engine::Joint::describe;
  call.callback = calls_back ? engine::Joint::run_callbacks : nullptr;
  call.callback_context = call.joint.get();
  return call;
}

}  // namespace tbccl::comm
