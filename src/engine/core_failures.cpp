// What breaks channels, and what a request's clock does: see "Failures" in README.md.
#include <algorithm>
#include <cassert>
#include <exception>
#include <new>

#include "base/formatted.h"
#include "base/log.h"
#include "engine/callbacks.h"
#include "engine/core.h"

namespace tbccl::engine {
namespace {

// After a deadline the others are asked what they are doing: how often it is looked for an answer,
// and how long it may take.
constexpr uint64_t kAskAgainNs = 10'000'000;
constexpr uint64_t kExplainNs = 900'000'000;

// A receive from any source that no message has met yet.
bool from_any(const Request* request) {
  return request->call.kind != RequestKind::kSend && request->call.peer == TBCCL_ANY_SOURCE &&
         !request->message.matched;
}

}  // namespace

void Core::break_later(Channel* channel, const Status& cause) {
  breaks_.emplace_back(channel, cause);
}

void Core::break_peer(int peer, const Status& cause) {
  for (const auto& channel : channels_) {
    if (channel->comm_rank(peer) >= 0) break_later(channel.get(), cause);
  }
}

void Core::break_all() {
  Status cause;
  try {
    std::rethrow_exception(failure_);
  } catch (const std::bad_alloc&) {
    cause = Status(tbcclSystemError,
                   "there is not enough memory to carry operations on: use smaller messages or "
                   "fewer operations at once");
  } catch (const std::exception& e) {
    cause = Status(tbcclInternalError,
                   formatted("carrying operations on failed unexpectedly: {}", e.what()));
  } catch (...) {
    cause = Status(tbcclInternalError, "carrying operations on failed unexpectedly");
  }
  for (const auto& channel : channels_) break_later(channel.get(), cause);
  failure_ = nullptr;
  handle_breaks();
}

bool Core::handle_breaks() {
  bool any = false;
  while (!breaks_.empty()) {  // a withdrawal may find another failure
    any = true;
    const auto [channel, cause] = std::move(breaks_.back());
    breaks_.pop_back();
    break_channel(channel, cause);
  }
  return any;
}

void Core::break_channel(Channel* channel, const Status& cause) {
  if (channel->broken_handled) return;
  channel->break_with(cause);
  const Status first = channel->state();
  // Others may ask what this rank was doing after it has stopped: it belongs to their error, too.
  if (!channel->active.empty()) channel->broken_in = record(channel);
  for (Request* r = channel->active.front; r != nullptr; r = r->following) withdraw(r);
  // Before any call returns: the program may end as soon as one has, and the others shall know why.
  if (!channel->told) {
    log::info("communicator {} is broken: {}", channel->options().name, first.text());
    events_.broken(channel->options().comm, first);
    channel->told = true;
  }
  std::erase_if(touched_, [channel](Request* r) { return r->channel == channel; });
  channel->active_schedules = 0;
  channel->on_board = nullptr;
  while (Request* const request = channel->active.front) {
    request->touched = false;
    channel->active.remove(request);
    finish(request, first);
  }
  while (Request* const request = channel->queued.front) {
    gates_.forget(request);
    channel->queued.remove(request);
    finish(request, first);
  }
  channel->broken_handled = true;  // not before: what an exception interrupts is done again
}

void Core::withdraw(Request* request) {
  request->phase = Request::Phase::kWithdrawing;
  if (request->tiny != nullptr) {
    request->tiny->withdraw();
    return;
  }
  if (request->board != nullptr) {
    if (request->channel->on_board == request) request->board->withdraw();
    return;
  }
  if (request->call.kind == RequestKind::kSchedule) {
    request->execution.withdraw();
    return;
  }
  Message& message = request->message;
  if (message.send != nullptr) links_.withdraw(message.send);
  if (message.recv != nullptr) links_.withdraw(message.recv);
  message.send = nullptr;
  message.recv = nullptr;
  request->channel->matching.forget(request, request->call.tag);
}

void Core::mismatch(int peer, const link::Key& key, void* owner, uint32_t) {
  Channel* const channel =
      owner != nullptr ? static_cast<Request*>(owner)->channel : find(key.comm);
  if (channel == nullptr) return;
  const CallRecord record =
      owner != nullptr ? record_of(static_cast<Request*>(owner)) : CallRecord{};
  const std::string mine = owner != nullptr ? record.text : "another one";
  const std::string where =
      key.cls == link::Class::kPointToPoint
          ? formatted("message {} with tag {}", key.op, static_cast<int>(key.step))
          : formatted("operation {}", key.op);
  const int other = channel->comm_rank(peer);
  const Status cause(
      tbcclInvalidUsage,
      formatted("ranks disagree about {} of communicator {}: on rank {} it is {}, and rank {} "
                "called it with different arguments; all ranks must make the same calls in the "
                "same order, with equal operation, count, type, operator and root",
                where, channel->options().name, channel->options().rank, mine, other));
  if (!events_.mismatched(channel->options().comm, record, other, cause)) {
    break_later(channel, cause);
  }
}

void Core::peer_failed(int peer, const Status& status) { break_peer(peer, status); }

// --- timers -------------------------------------------------------------------------------------

void Core::timers() {
  next_check_ = kNever;
  if (now_ - told_carried_ >= kStallNs) {
    told_carried_ = now_;
    events_.carried(links_.counters());
  }
  for (const auto& channel : channels_) {
    check_queue(channel.get());
    for (Request* r = channel->active.front; r != nullptr; r = r->following) {
      if (now_ >= r->deadline) {
        std::string others;
        if (explain(r, &others)) {
          break_later(channel.get(), timed_out(r, others));
          break;
        }
        next_check_ = std::min(next_check_, now_ + kAskAgainNs);
        continue;
      }
      uint64_t stalls_at = std::max(r->progressed_at, r->reported_at) + kStallNs;
      if (now_ >= stalls_at) {
        r->reported_at = now_;
        stalls_at = now_ + kStallNs;
        events_.stalled(channel->options().comm, record_of(r));
      }
      next_check_ = std::min({next_check_, r->deadline, stalls_at});
    }
  }
  handle_breaks();
}

// What waits in the queue has no deadline yet: those before it may rightly take long. But if the
// channel as a whole makes no progress for as long as one of them may take, it will not be served.
void Core::check_queue(Channel* channel) {
  const Request* const first = channel->queued.front;
  if (first == nullptr) return;
  // The first in the queue has a deadline if its start condition is being waited for.
  if (now_ >= first->deadline) return break_later(channel, gate_timed_out(first));
  next_check_ = std::min(next_check_, first->deadline);
  uint64_t progressed = channel->progressed_at;
  for (const Request* r = channel->active.front; r != nullptr; r = r->following) {
    progressed = std::max(progressed, r->progressed_at);
  }
  for (const Request* r = first; r != nullptr; r = r->following) {
    const uint64_t due = after(std::max(progressed, r->progressed_at), r->call.timeout_ns);
    if (now_ >= due) return break_later(channel, queue_timed_out(r));
    next_check_ = std::min(next_check_, due);
  }
}

Status Core::queue_timed_out(const Request* request) const {
  const Channel* const channel = request->channel;
  const Request* const active = channel->active.front;
  const Request* const head = active != nullptr ? active : channel->queued.front;
  std::string why;
  if (head != request) {
    why = formatted("it waits behind {}, which {}", record_of(head).text,
                    active == nullptr ? "waits for its start condition" : "has not finished");
    std::string peers;
    for (const int rank : waiting_for(head)) {
      peers += formatted("{}rank {}", peers.empty() ? " and waits for " : ", ", rank);
    }
    why += peers;
  } else {
    why = "it waits for its start condition";
  }
  const std::string number =
      request->number > 0 ? formatted(", operation {}", request->number) : "";
  return Status(
      tbcclTimeout,
      formatted("{}{} of communicator {}, has not started on rank {}, and nothing has moved for "
                "{} s: {}; operations of a communicator start in the order of their submission",
                record_of(request).text, number, channel->options().name, channel->options().rank,
                static_cast<double>(request->call.timeout_ns) / 1e9, why));
}

Status Core::gate_timed_out(const Request* request) const {
  const Call& call = request->call;
  const std::string condition = call.start_when == tbcclStartWhenFlag
                                    ? formatted("the flag has the value {}", call.flag_value)
                                    : formatted("descriptor {} becomes readable", call.descriptor);
  const std::string number =
      request->number > 0 ? formatted(", operation {}", request->number) : "";
  return Status(
      tbcclTimeout,
      formatted("{}{} of communicator {}, has not started on rank {}: it was to start when {}, "
                "and this start condition has not fired within {} s; see to it that what the "
                "call waits for happens, or raise TBCCL_TIMEOUT",
                record_of(request).text, number, request->channel->options().name,
                request->channel->options().rank, condition,
                static_cast<double>(call.timeout_ns) / 1e9));
}

bool Core::explain(Request* request, std::string* others) {
  if (request->late_since == 0) request->late_since = now_;
  return events_.others_doing(request->channel->options().comm, record_of(request), others) ||
         now_ - request->late_since >= kExplainNs;
}

Status Core::timed_out(const Request* request, const std::string& others) const {
  std::string peers;
  if (from_any(request)) {
    peers = "a message from any rank";
  } else {
    for (const int rank : waiting_for(request)) {
      const int peer = request->channel->options().peers[rank];
      peers += formatted("{}rank {} ({})", peers.empty() ? "" : ", ", rank, links_.describe(peer));
    }
  }
  if (peers.empty()) peers = "nobody in particular";
  const CallRecord record = record_of(request);
  const std::string number = record.number > 0 ? formatted(", operation {}", record.number) : "";
  return Status(
      tbcclTimeout,
      formatted("{}{} of communicator {}, did not finish within {} s: rank {} waits "
                "for {}{}{}; check that every rank makes this call, or raise "
                "TBCCL_TIMEOUT",
                record.text, number, request->channel->options().name,
                static_cast<double>(request->call.timeout_ns) / 1e9,
                request->channel->options().rank, peers, others.empty() ? "" : "; ", others));
}

std::vector<int> Core::waiting_for(const Request* request) const {
  if (request->phase == Request::Phase::kQueued) return {};
  if (request->tiny != nullptr) return request->tiny->waiting_for();
  if (request->board != nullptr) {
    // Behind another it waits for that one alone.
    if (request->channel->on_board != request) return {};
    return request->board->waiting_for();
  }
  if (request->call.kind == RequestKind::kSchedule) return request->execution.waiting_for();
  if (from_any(request)) {
    // Whoever sends first; this rank itself is the caller's own affair.
    const ChannelOptions& options = request->channel->options();
    std::vector<int> others;
    for (int rank = 0; rank < options.size; ++rank) {
      if (rank != options.rank) others.push_back(rank);
    }
    return others;
  }
  const Message& message = request->message;
  const int peer = message.matched ? request->channel->comm_rank(message.peer) : request->call.peer;
  if (!request->sends_and_receives()) return {peer};
  std::vector<int> both;
  if (!message.sent) both.push_back(request->call.to);
  if (!message.received && (both.empty() || peer != both[0])) both.push_back(peer);
  std::sort(both.begin(), both.end());
  return both;
}

CallRecord Core::record_of(const Request* request) const {
  CallRecord record;
  record.number = request->number;
  record.fingerprint = request->call.fingerprint;
  record.text = request->call.describe != nullptr ? request->call.describe(request->call)
                                                  : std::string(request->call.operation);
  record.waiting_for = waiting_for(request);
  return record;
}

CallRecord Core::record(Channel* channel) const {
  const Request* oldest = channel->active.front;
  for (const Request* r = oldest; r != nullptr; r = r->following) {
    if (r->call.kind != RequestKind::kSchedule) continue;
    oldest = r;
    break;
  }
  return oldest != nullptr ? record_of(oldest) : channel->broken_in;
}

// --- channels -----------------------------------------------------------------------------------

Channel* Core::find(uint32_t comm) const {
  for (const auto& channel : channels_) {
    if (channel->options().comm == comm) return channel.get();
  }
  return nullptr;
}

Channel* Core::add_channel(const ChannelOptions& options) {
  channels_.push_back(std::make_unique<Channel>(options));
  links_.add_communicator(options.comm);
  return channels_.back().get();
}

void Core::remove_channel(Channel* channel) {
  std::erase_if(breaks_, [channel](const auto& entry) { return entry.first == channel; });
  boards_.give_up(std::move(channel->board));
  links_.remove_communicator(channel->options().comm);
  std::erase_if(channels_, [channel](const auto& entry) { return entry.get() == channel; });
}

}  // namespace tbccl::engine
