#include "api/handles.h"

#include "base/formatted.h"

namespace tbccl::api {
namespace {

thread_local std::string thread_error;
thread_local std::string shown_error;

}  // namespace

tbcclResult_t report(tbcclComm_t comm, const Status& status) {
  if (status.ok()) return tbcclSuccess;
  try {
    std::string text = formatted("{}: {}", tbcclGetErrorString(status.code()), status.text());
    if (comm != nullptr && comm->magic == kCommMagic) {
      std::lock_guard<std::mutex> hold(comm->lock);
      comm->last_error = text;
    }
    thread_error = std::move(text);
  } catch (...) {
    // Without memory for the text the code alone has to do.
  }
  return status.code();
}

Entry::Entry(tbcclComm_t comm) {
  if (comm == nullptr || comm->magic != kCommMagic) {
    status_ = Status(tbcclInvalidArgument, comm == nullptr
                                               ? "the communicator is NULL"
                                               : "this is not a communicator, or it was destroyed");
    return;
  }
  if (engine::forked()) {
    status_ =
        Status(tbcclInvalidUsage, "communicators do not survive fork(); make a new one after exec");
    return;
  }
  comm_ = comm;
  comm_->inside.fetch_add(1);
}

Entry::~Entry() {
  if (comm_ != nullptr) comm_->inside.fetch_sub(1);
}

tbcclRequest_t take_request(tbcclComm_t comm) {
  std::lock_guard<std::mutex> hold(comm->lock);
  tbcclRequest_t request = nullptr;
  if (comm->free_requests.empty()) {
    request = &comm->requests.emplace_back();
  } else {
    request = comm->free_requests.back();
    comm->free_requests.pop_back();
  }
  request->magic = kRequestMagic;
  request->comm = comm;
  return request;
}

void give_request(tbcclRequest_t request) {
  tbcclComm_t comm = request->comm;
  std::lock_guard<std::mutex> hold(comm->lock);
  *request = tbcclRequest{};
  comm->free_requests.push_back(request);
}

Status check_request(tbcclRequest_t request) {
  if (request == nullptr || request->magic != kRequestMagic) {
    return {tbcclInvalidArgument,
            request == nullptr ? "the request is NULL" : "this is not a request, or it was freed"};
  }
  if (engine::forked()) {
    return {tbcclInvalidUsage, "requests do not survive fork()"};
  }
  if (request->kept) {
    return {tbcclInvalidUsage, "this request is valid only after tbcclGroupEnd"};
  }
  return {};
}

}  // namespace tbccl::api

using tbccl::Status;
using namespace tbccl::api;

extern "C" {

tbcclResult_t tbcclGetVersion(int* version) {
  if (version == nullptr) return report(nullptr, Status(tbcclInvalidArgument, "version is NULL"));
  *version = TBCCL_VERSION_CODE;
  return tbcclSuccess;
}

const char* tbcclGetErrorString(tbcclResult_t result) {
  switch (result) {
    case tbcclSuccess:
      return "success";
    case tbcclSystemError:
      return "system error";
    case tbcclInternalError:
      return "internal error";
    case tbcclInvalidArgument:
      return "invalid argument";
    case tbcclInvalidUsage:
      return "invalid usage";
    case tbcclRemoteError:
      return "remote error";
    case tbcclInProgress:
      return "in progress";
    case tbcclTimeout:
      return "timeout";
    case tbcclAborted:
      return "aborted";
  }
  return "unknown result code";
}

const char* tbcclGetLastError(tbcclComm_t comm) {
  try {
    if (comm != nullptr && comm->magic == kCommMagic) {
      std::lock_guard<std::mutex> hold(comm->lock);
      shown_error = comm->last_error;
    } else {
      shown_error = thread_error;
    }
    if (comm != nullptr && shown_error.empty() && comm->magic == kCommMagic) {
      Entry entry(comm);
      if (entry.status().ok()) shown_error = comm->communicator->state().text();
    }
  } catch (...) {
    return "out of memory";
  }
  return shown_error.c_str();
}

}  // extern "C"
