#include "api/group.h"

#include <vector>

namespace tbccl::api {
namespace {

struct Kept {
  std::shared_ptr<Life> life;    // the group may stay open for any time, so it is no Entry
  std::unique_ptr<Entry> entry;  // from the group's end on
  tbcclComm_t comm = nullptr;    // likewise; NULL: destroyed meanwhile
  engine::Call call;
  bool restart = false;                   // of the handle's persistent request; `call` is unused
  tbcclRequest_t handle = nullptr;        // the caller's, or
  engine::Request* waited_for = nullptr;  // ours, until the end
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

thread_local int depth = 0;
thread_local std::vector<Kept> kept;
thread_local Capture* capturing = nullptr;

// All are submitted before any is waited for; the first error in order of the calls is returned.
tbcclResult_t finish(std::vector<Kept> calls) {
  tbcclResult_t first = tbcclSuccess;
  const auto note = [&](tbcclComm_t comm, const Status& status) {
    if (status.ok()) return;
    const tbcclResult_t code = report(comm, status);
    if (first == tbcclSuccess) first = code;
  };
  for (Kept& k : calls) {
    if (const Status status = enter(&k); !status.ok()) {
      note(nullptr, status);  // its requests went with it
      continue;
    }
    comm::Communicator& communicator = *k.comm->communicator;
    engine::Request* request = k.restart ? k.handle->active : nullptr;
    const Status status =
        k.restart ? communicator.lane().start(request)
                  : communicator.lane().submit(communicator.channel(), k.call, &request);
    if (k.handle != nullptr) k.handle->kept = k.handle->settled = false;
    if (k.handle == nullptr) {
      k.waited_for = request;
    } else if (status.ok()) {
      k.handle->active = request;
    } else {
      k.handle->settled = true;
      k.handle->result = status;
    }
    note(k.comm, status);
  }
  for (Kept& k : calls) {
    if (k.waited_for == nullptr) continue;
    engine::Lane& lane = k.comm->communicator->lane();
    note(k.comm, lane.wait(k.waited_for, kNever));
    lane.release(k.waited_for);
  }
  return first;
}

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
