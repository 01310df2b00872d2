// Persistent requests: made once, started any number of times.
#include "api/group.h"
#include "api/handles.h"

namespace tbccl::api {
namespace {

// Everything that a call is checked for and made into happens where calls are made.
tbcclResult_t init(const tbcclCall_t* given, tbcclRequest_t* request) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (request == nullptr) return report(nullptr, Status(tbcclInvalidArgument, "request is NULL"));
    *request = nullptr;
    Capture capture;
    tbcclRequest_t unused = nullptr;
    if (const tbcclResult_t result = tbcclSubmit(given, &unused); result != tbcclSuccess) {
      return result;
    }
    Entry entry(given->comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    if (capture.calls.size() != 1) {
      return report(given->comm, Status(tbcclInvalidArgument,
                                        "this operation is made of several, and cannot be "
                                        "persistent; make a request of each"));
    }
    comm::Communicator& communicator = *given->comm->communicator;
    engine::Request* active = nullptr;
    if (Status status =
            communicator.lane().keep(communicator.channel(), capture.calls.front(), &active);
        !status.ok()) {
      return report(given->comm, status);
    }
    *request = take_request(given->comm);
    (*request)->active = active;
    (*request)->persistent = true;
    (*request)->kind = capture.calls.front().kind;
    return tbcclSuccess;
  });
}

tbcclCall_t call_of(tbcclOperation_t operation, tbcclComm_t comm) {
  tbcclCall_t call = TBCCL_CALL_INITIALIZER;
  call.operation = operation;
  call.comm = comm;
  return call;
}

Status startable(tbcclRequest_t request) {
  if (Status status = check_request(request); !status.ok()) {
    return request != nullptr && request->magic == kRequestMagic && request->kept
               ? Status(tbcclInvalidArgument, "the request is started by a group that is open")
               : status;
  }
  if (!request->persistent) {
    return {tbcclInvalidArgument,
            "the request is not persistent: only those of tbcclCallInit and its short forms can be "
            "started"};
  }
  Status result;
  if (!request->comm->communicator->lane().test(request->active, &result)) {
    return {tbcclInvalidArgument,
            "the request is in progress: wait for it before it is started again"};
  }
  return {};
}

tbcclResult_t start(tbcclRequest_t request) {
  if (group_is_open()) return start_in_group(request);
  const Status status = request->comm->communicator->lane().start(request->active);
  if (status.ok()) request->settled = false;
  return report(request->comm, status);
}

}  // namespace
}  // namespace tbccl::api

using namespace tbccl;
using namespace tbccl::api;

extern "C" {

tbcclResult_t tbcclCallInit(const tbcclCall_t* call, tbcclRequest_t* request) {
  return init(call, request);
}

tbcclResult_t tbcclAllReduceInit(const void* sendbuff, void* recvbuff, size_t count,
                                 tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                                 tbcclRequest_t* request) {
  tbcclCall_t call = call_of(tbcclOpAllReduce, comm);
  call.sendbuff = sendbuff;
  call.recvbuff = recvbuff;
  call.count = count;
  call.datatype = datatype;
  call.op = op;
  return init(&call, request);
}

tbcclResult_t tbcclBroadcastInit(const void* sendbuff, void* recvbuff, size_t count,
                                 tbcclDataType_t datatype, int root, tbcclComm_t comm,
                                 tbcclRequest_t* request) {
  tbcclCall_t call = call_of(tbcclOpBroadcast, comm);
  call.sendbuff = sendbuff;
  call.recvbuff = recvbuff;
  call.count = count;
  call.datatype = datatype;
  call.root = root;
  return init(&call, request);
}

tbcclResult_t tbcclBarrierInit(tbcclComm_t comm, tbcclRequest_t* request) {
  const tbcclCall_t call = call_of(tbcclOpBarrier, comm);
  return init(&call, request);
}

tbcclResult_t tbcclSendInit(const void* sendbuff, size_t count, tbcclDataType_t datatype, int peer,
                            int tag, tbcclComm_t comm, tbcclRequest_t* request) {
  tbcclCall_t call = call_of(tbcclOpSend, comm);
  call.sendbuff = sendbuff;
  call.count = count;
  call.datatype = datatype;
  call.root = peer;
  call.tag = tag;
  return init(&call, request);
}

tbcclResult_t tbcclRecvInit(void* recvbuff, size_t count, tbcclDataType_t datatype, int peer,
                            int tag, tbcclComm_t comm, tbcclRequest_t* request) {
  tbcclCall_t call = call_of(tbcclOpRecv, comm);
  call.recvbuff = recvbuff;
  call.count = count;
  call.datatype = datatype;
  call.root = peer;
  call.tag = tag;
  return init(&call, request);
}

tbcclResult_t tbcclStart(tbcclRequest_t request) { return tbcclStartAll(1, &request); }

tbcclResult_t tbcclStartAll(int count, const tbcclRequest_t* requests) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (count < 0 || (count > 0 && requests == nullptr)) {
      return report(nullptr, Status(tbcclInvalidArgument, "count is negative or requests is NULL"));
    }
    for (int i = 0; i < count; ++i) {
      const Status status = startable(requests[i]);
      if (!status.ok()) return report(nullptr, status);
    }
    for (int i = 0; i < count; ++i) {
      Entry entry(requests[i]->comm);
      if (!entry.status().ok()) return report(nullptr, entry.status());
      if (Status status = requests[i]->comm->communicator->usable(); !status.ok()) {
        return report(requests[i]->comm, status);
      }
      if (const tbcclResult_t result = start(requests[i]); result != tbcclSuccess) return result;
    }
    return tbcclSuccess;
  });
}

}  // extern "C"
