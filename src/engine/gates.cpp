#include "engine/gates.h"

#include <poll.h>

#include <algorithm>

namespace tbccl::engine {

bool Gates::begin_walk(uint64_t now) {
  if (waiting_.empty()) return false;
  looking_ = now - looked_at_ >= kLookNs;
  if (looking_) looked_at_ = now;
  return looking_ || flags_ > 0;
}

Gates::Answer Gates::ask(Request* request) {
  const Call& call = request->call;
  if (call.start_when == tbcclStartNow) return Answer::kStart;
  const bool registered = std::find(waiting_.begin(), waiting_.end(), request) != waiting_.end();
  const bool is_flag = call.start_when == tbcclStartWhenFlag;
  if (registered && !is_flag && !looking_) return Answer::kWait;
  const Answer answer = fired(call);
  if (answer != Answer::kWait) {
    if (registered) forget(request);
    return answer;
  }
  if (!registered) {
    waiting_.push_back(request);
    if (is_flag) {
      ++flags_;
    } else {
      poller_.watch(call.descriptor, 1);
    }
  }
  return Answer::kWait;
}

void Gates::forget(Request* request) {
  const auto at = std::find(waiting_.begin(), waiting_.end(), request);
  if (at == waiting_.end()) return;
  waiting_.erase(at);
  if (request->call.start_when == tbcclStartWhenFlag) {
    --flags_;
  } else if (!watched_by_another(request->call.descriptor)) {
    poller_.watch(request->call.descriptor, 0);
  }
}

bool Gates::watched_by_another(int descriptor) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [descriptor](const Request* other) {
    return other->call.start_when == tbcclStartWhenDescriptor &&
           other->call.descriptor == descriptor;
  });
}

Gates::Answer Gates::fired(const Call& call) const {
  if (call.start_when == tbcclStartWhenFlag) {
    // The writer uses release order.
    const uint32_t value = __atomic_load_n(call.flag, __ATOMIC_ACQUIRE);
    return value == call.flag_value ? Answer::kStart : Answer::kWait;
  }
  pollfd entry{call.descriptor, POLLIN, 0};
  const int ready = ::poll(&entry, 1, 0);
  if (ready <= 0) return Answer::kWait;
  return entry.revents & POLLNVAL ? Answer::kBad : Answer::kStart;
}

}  // namespace tbccl::engine
