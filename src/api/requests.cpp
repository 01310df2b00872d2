// Requests: test, wait, free.
#include <vector>

#include "api/handles.h"
#include "base/clock.h"

namespace tbccl::api {
namespace {

uint64_t limit_of(int64_t timeout_ms) {
  if (timeout_ms < 0 || timeout_ms > INT64_MAX / 1'000'000) return kNever;
  return static_cast<uint64_t>(timeout_ms) * 1'000'000;
}

Status wait_for(tbcclRequest_t request, uint64_t timeout_ns) {
  if (request->settled) return request->result;
  return request->comm->communicator->lane().wait(request->active, timeout_ns);
}

// InProgress is an answer, not an error to be remembered.
tbcclResult_t answer(tbcclComm_t comm, const Status& status) {
  return status.code() == tbcclInProgress ? tbcclInProgress : report(comm, status);
}

}  // namespace
}  // namespace tbccl::api

using namespace tbccl;
using namespace tbccl::api;

extern "C" {

tbcclResult_t tbcclTest(tbcclRequest_t request, int* done) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (done == nullptr) return report(nullptr, Status(tbcclInvalidArgument, "done is NULL"));
    if (Status status = check_request(request); !status.ok()) return report(nullptr, status);
    Entry entry(request->comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    Status result = request->result;
    *done = request->settled || request->comm->communicator->lane().test(request->active, &result);
    return *done ? report(request->comm, result) : tbcclSuccess;
  });
}

tbcclResult_t tbcclWait(tbcclRequest_t request, int64_t timeoutMs) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (Status status = check_request(request); !status.ok()) return report(nullptr, status);
    Entry entry(request->comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    return answer(request->comm, wait_for(request, limit_of(timeoutMs)));
  });
}

tbcclResult_t tbcclWaitAll(int count, const tbcclRequest_t* requests, int64_t timeoutMs) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (count < 0 || (count > 0 && requests == nullptr)) {
      return report(nullptr, Status(tbcclInvalidArgument, "count is negative or requests is NULL"));
    }
    for (int i = 0; i < count; ++i) {
      if (requests[i] == nullptr) continue;
      if (Status status = check_request(requests[i]); !status.ok()) return report(nullptr, status);
    }
    const uint64_t limit = limit_of(timeoutMs);
    const uint64_t end = limit == kNever ? kNever : now_ns() + limit;
    tbcclResult_t first = tbcclSuccess;
    bool unfinished = false;
    for (int i = 0; i < count; ++i) {
      if (requests[i] == nullptr) continue;
      Entry entry(requests[i]->comm);
      if (!entry.status().ok()) return report(nullptr, entry.status());
      const uint64_t now = now_ns();
      const Status status =
          wait_for(requests[i], end == kNever ? kNever : (now < end ? end - now : 0));
      const tbcclResult_t code = answer(requests[i]->comm, status);
      unfinished = unfinished || code == tbcclInProgress;
      if (first == tbcclSuccess && code != tbcclInProgress) first = code;
    }
    return first == tbcclSuccess && unfinished ? tbcclInProgress : first;
  });
}

tbcclResult_t tbcclWaitAny(int count, const tbcclRequest_t* requests, int* index,
                           int64_t timeoutMs) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (count < 0 || (count > 0 && requests == nullptr) || index == nullptr) {
      return report(
          nullptr, Status(tbcclInvalidArgument, "count is negative, or requests or index is NULL"));
    }
    std::vector<engine::Request*> active;
    std::vector<int> position;
    std::vector<std::unique_ptr<Entry>> entries;
    for (int i = 0; i < count; ++i) {
      if (requests[i] == nullptr) continue;
      if (Status status = check_request(requests[i]); !status.ok()) return report(nullptr, status);
      entries.push_back(std::make_unique<Entry>(requests[i]->comm));
      if (!entries.back()->status().ok()) return report(nullptr, entries.back()->status());
      if (requests[i]->settled) {
        *index = i;
        return report(requests[i]->comm, requests[i]->result);
      }
      active.push_back(requests[i]->active);
      position.push_back(i);
    }
    if (active.empty()) {
      return report(nullptr, Status(tbcclInvalidArgument, "there is no request to wait for"));
    }
    int found = 0;
    const Status status = engine::wait_any(active.data(), static_cast<int>(active.size()),
                                           limit_of(timeoutMs), &found);
    if (status.code() == tbcclInProgress) return tbcclInProgress;
    *index = position[static_cast<size_t>(found)];
    return report(requests[*index]->comm, status);
  });
}

tbcclResult_t tbcclRequestSource(tbcclRequest_t request, int* source) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (source == nullptr) return report(nullptr, Status(tbcclInvalidArgument, "source is NULL"));
    if (Status status = check_request(request); !status.ok()) return report(nullptr, status);
    Entry entry(request->comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    Status result;
    const int from =
        request->settled || !request->comm->communicator->lane().test(request->active, &result)
            ? -1
            : request->comm->communicator->lane().source(request->active);
    if (from < 0) {
      return report(request->comm,
                    Status(tbcclInvalidUsage, "this request is not a completed receive"));
    }
    *source = from;
    return tbcclSuccess;
  });
}

tbcclResult_t tbcclRequestFree(tbcclRequest_t* request) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (request == nullptr) return report(nullptr, Status(tbcclInvalidArgument, "request is NULL"));
    if (Status status = check_request(*request); !status.ok()) return report(nullptr, status);
    Entry entry((*request)->comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    if ((*request)->active != nullptr) {
      (*request)->comm->communicator->lane().release((*request)->active);
    }
    give_request(*request);
    *request = nullptr;
    return tbcclSuccess;
  });
}

}  // extern "C"
