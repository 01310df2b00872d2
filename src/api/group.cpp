#include "api/group.h"

#include <algorithm>
#include <map>
#include <vector>

#include "comm/join.h"

namespace tbccl::api {
namespace {

struct Kept {
  std::shared_ptr<Life> life;    // the group may stay open for any time, so it is no Entry
  std::unique_ptr<Entry> entry;  // from the group's end on
  tbcclComm_t comm = nullptr;    // likewise; NULL: destroyed meanwhile
  engine::Call call;
  bool restart = false;             // of the handle's persistent request; `call` is unused
  engine::RequestKind kind{};       // of the call, or of what is started
  tbcclRequest_t handle = nullptr;  // the caller's; NULL: waited for at the group's end
};

// What is submitted: one call, or several that were joined.
struct Submission {
  std::vector<Kept*> calls;
  engine::Call joined;                    // where there are several
  engine::Request* waited_for = nullptr;  // ours, until the end

  Kept& first() const { return *calls.front(); }
  const engine::Call& call() const { return calls.size() > 1 ? joined : first().call; }
  comm::Communicator& communicator() const { return *first().comm->communicator; }
  // Somebody waits for it at the group's end.
  bool blocks() const {
    return std::any_of(calls.begin(), calls.end(), [](const Kept* k) { return !k->handle; });
  }
};

Status enter(Kept* k) {
  std::lock_guard<std::mutex> hold(k->life->lock);
  if (k->life->comm == nullptr) {
    return {tbcclInvalidUsage,
            "a communicator was destroyed while a group held calls on it; end the group first"};
  }
  k->entry = std::make_unique<Entry>(k->life->comm);
  if (!k->entry->status().ok()) return k->entry->status();
  k->comm = k->life->comm;
  return {};
}

// Each rank has a group's messages in an order of its own. A receive that is posted before its
// message comes takes it where it belongs, instead of a copy being kept for it: receives go first,
// then sends, then what all ranks have in one order. Numbers, and which message meets which
// receive, are as they were. A call with a start condition holds back what comes after it, which
// stays so.
void put_receives_first(std::vector<Kept*>& calls) {
  const auto gated = std::find_if(calls.begin(), calls.end(), [](const Kept* k) {
    return k->restart || k->call.start_when != tbcclStartNow;
  });
  const auto place = [](const Kept* k) {
    return k->kind == engine::RequestKind::kRecv   ? 0
           : k->kind == engine::RequestKind::kSend ? 1
                                                   : 2;
  };
  std::stable_sort(calls.begin(), gated,
                   [&](const Kept* a, const Kept* b) { return place(a) < place(b); });
}

// Collectives of one communicator that follow each other, whatever messages are between them, are
// joined where they may be (comm/join.h).
std::vector<Submission> join(const std::vector<Kept*>& calls) {
  std::vector<Submission> all;
  std::map<tbcclComm_t, size_t> last;  // of each communicator, its collective that came last
  std::map<tbcclComm_t, uint64_t> bytes;
  for (Kept* k : calls) {
    const bool collective = k->kind == engine::RequestKind::kSchedule;
    const uint64_t own = k->call.count * reduce::size_of(k->call.reduction.type);
    if (const auto before = last.find(k->comm); collective && before != last.end()) {
      Submission& open = all[before->second];
      if (!k->restart && !open.first().restart && comm::joins(open.first().call, k->call) &&
          bytes[k->comm] + own <= comm::kMostJoinedTogether) {
        open.calls.push_back(k);
        bytes[k->comm] += own;
        continue;
      }
    }
    if (collective) {
      last[k->comm] = all.size();
      bytes[k->comm] = own;
    }
    all.emplace_back();
    all.back().calls.push_back(k);
  }
  for (Submission& s : all) {
    if (s.calls.size() < 2) continue;
    std::vector<const engine::Call*> parts;
    for (const Kept* k : s.calls) parts.push_back(&k->call);
    s.joined = comm::joined(parts);
  }
  return all;
}

// Remembers errors; the first in order of the calls is the group's.
class Errors {
 public:
  void note(tbcclComm_t comm, const Status& status) {
    if (status.ok()) return;
    const tbcclResult_t code = report(comm, status);
    if (first_ == tbcclSuccess) first_ = code;
  }
  tbcclResult_t first() const { return first_; }

 private:
  tbcclResult_t first_ = tbcclSuccess;
};

void enqueue(Submission& s, Errors& errors) {
  comm::Communicator& communicator = s.communicator();
  engine::Lane& lane = communicator.lane();
  engine::Request* request = nullptr;
  Status status;
  if (s.first().restart) {
    status = lane.enqueue_start(s.first().handle->active);
  } else {
    const auto handles =
        std::count_if(s.calls.begin(), s.calls.end(), [](const Kept* k) { return k->handle; });
    const int users = static_cast<int>(handles) + (s.blocks() ? 1 : 0);
    status = lane.enqueue(communicator.channel(), s.call(), users, &request);
  }
  for (Kept* k : s.calls) {
    if (k->handle == nullptr) continue;
    k->handle->kept = false;
    k->handle->settled = !status.ok();
    k->handle->result = status;
    if (!k->restart) k->handle->active = request;
  }
  if (s.blocks()) s.waited_for = request;
  errors.note(s.first().comm, status);
}

// All are submitted before any is waited for.
tbcclResult_t finish(std::vector<Kept> kept) {
  Errors errors;
  std::vector<Kept*> calls;
  for (Kept& k : kept) {
    const Status status = enter(&k);
    errors.note(nullptr, status);
    if (status.ok()) calls.push_back(&k);  // otherwise its requests went with the communicator
  }
  put_receives_first(calls);
  std::vector<Submission> all = join(calls);
  if (all.size() == 1 && !all[0].first().restart &&
      std::none_of(all[0].calls.begin(), all[0].calls.end(), [](auto* k) { return k->handle; })) {
    comm::Communicator& communicator = all[0].communicator();
    errors.note(all[0].first().comm,
                communicator.lane().run(communicator.channel(), all[0].call()));
    return errors.first();
  }
  std::map<engine::Lane*, bool> lanes;  // whether this thread is going to wait there
  for (Submission& s : all) {
    enqueue(s, errors);
    lanes[&s.communicator().lane()] |= s.waited_for != nullptr;
  }
  // Of several lanes this thread can serve one at a time.
  for (const auto& [lane, waits] : lanes) lane->tell(waits && lanes.size() == 1);
  for (Submission& s : all) {
    if (s.waited_for == nullptr) continue;
    engine::Lane& lane = s.communicator().lane();
    errors.note(s.first().comm, lane.wait(s.waited_for, kNever));
    lane.release(s.waited_for);
  }
  return errors.first();
}

thread_local int depth = 0;
thread_local std::vector<Kept> kept;
thread_local Capture* capturing = nullptr;

}  // namespace

Capture::Capture() : outer_(capturing) { capturing = this; }
Capture::~Capture() { capturing = outer_; }

bool group_is_open() { return depth > 0; }
bool in_group() { return group_is_open() || capturing != nullptr; }

tbcclResult_t add_to_group(tbcclComm_t comm, const engine::Call& call, tbcclRequest_t* request) {
  if (capturing != nullptr) {
    capturing->calls.push_back(call);
    return tbcclSuccess;
  }
  Kept k;
  k.life = comm->life;
  k.call = call;
  k.kind = call.kind;
  if (request != nullptr) {
    k.handle = take_request(comm);
    k.handle->kept = true;
    *request = k.handle;
  }
  kept.push_back(std::move(k));
  return tbcclSuccess;
}

tbcclResult_t start_in_group(tbcclRequest_t request) {
  Kept k;
  k.life = request->comm->life;
  k.restart = true;
  k.kind = request->kind;
  k.handle = request;
  request->kept = true;
  kept.push_back(std::move(k));
  return tbcclSuccess;
}

}  // namespace tbccl::api

using tbccl::Status;
using namespace tbccl::api;

extern "C" {

tbcclResult_t tbcclGroupStart(void) {
  ++depth;
  return tbcclSuccess;
}

tbcclResult_t tbcclGroupEnd(void) {
  if (depth == 0) {
    return report(nullptr, Status(tbcclInvalidUsage, "tbcclGroupEnd without tbcclGroupStart"));
  }
  if (--depth > 0) return tbcclSuccess;
  std::vector<Kept> calls;
  calls.swap(kept);
  return guarded(nullptr, [&] { return finish(std::move(calls)); });
}

}  // extern "C"
