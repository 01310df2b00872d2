// The operations: each named function is the short form of a tbcclCall_t.
#include <fmt/core.h>

#include <cstddef>

#include "api/group.h"
#include "api/handles.h"

namespace tbccl::api {
namespace {

tbcclResult_t run(tbcclComm_t comm, const comm::Operation& operation, const tbcclCall_t* extras,
                  tbcclRequest_t* request) {
  return guarded(comm, [&]() -> tbcclResult_t {
    Entry entry(comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    comm::Communicator& communicator = *comm->communicator;
    if (Status status = communicator.usable(); !status.ok()) return report(comm, status);
    engine::Call call;
    if (Status status = communicator.prepare(operation, &call); !status.ok()) {
      return report(comm, status);
    }
    if (extras != nullptr) {
      if (extras->timeoutMs != TBCCL_UNSET_I64) {
        call.timeout_ns = static_cast<uint64_t>(extras->timeoutMs) * 1'000'000;
      }
      call.callback = extras->callback;
      call.callback_context = extras->callbackContext;
      call.start_when = extras->startWhen;
      call.flag = extras->flag;
      call.flag_value = extras->flagValue;
      call.descriptor = extras->descriptor;
    }
    if (in_group()) return add_to_group(comm, call, request);
    engine::Lane& lane = communicator.lane();
    if (request == nullptr) return report(comm, lane.run(communicator.channel(), call));
    engine::Request* active = nullptr;
    if (Status status = lane.submit(communicator.channel(), call, &active); !status.ok()) {
      return report(comm, status);
    }
    *request = take_request(comm);
    (*request)->active = active;
    return tbcclSuccess;
  });
}

Status check_extras(const tbcclCall_t& call) {
  const auto bad = [](const char* text) { return Status(tbcclInvalidArgument, text); };
  if (call.timeoutMs < 0 && call.timeoutMs != TBCCL_UNSET_I64) {
    return bad("timeoutMs is negative; 0 means none, TBCCL_UNSET_I64 the communicator's");
  }
  if (call.timeoutMs > INT64_MAX / 1'000'000) return bad("timeoutMs is more than 292 years");
  switch (call.startWhen) {
    case tbcclStartNow:
      return {};
    case tbcclStartWhenFlag:
      if (call.flag == nullptr || reinterpret_cast<uintptr_t>(call.flag) % 4 != 0) {
        return bad("startWhen is tbcclStartWhenFlag, and flag is NULL or not aligned");
      }
      return {};
    case tbcclStartWhenDescriptor:
      if (call.descriptor < 0) {
        return bad("startWhen is tbcclStartWhenDescriptor, and descriptor is negative");
      }
      return {};
  }
  return bad("startWhen is none of tbcclStartWhen_t");
}

}  // namespace
}  // namespace tbccl::api

using namespace tbccl;
using namespace tbccl::api;

extern "C" {

tbcclResult_t tbcclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                             tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                             tbcclRequest_t* request) {
  return run(comm, {tbcclOpAllReduce, sendbuff, recvbuff, count, datatype, op, 0, 0}, nullptr,
             request);
}

tbcclResult_t tbcclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             tbcclDataType_t datatype, int root, tbcclComm_t comm,
                             tbcclRequest_t* request) {
  return run(comm, {tbcclOpBroadcast, sendbuff, recvbuff, count, datatype, tbcclSum, root, 0},
             nullptr, request);
}

tbcclResult_t tbcclSend(const void* sendbuff, size_t count, tbcclDataType_t datatype, int peer,
                        int tag, tbcclComm_t comm, tbcclRequest_t* request) {
  return run(comm, {tbcclOpSend, sendbuff, nullptr, count, datatype, tbcclSum, peer, tag}, nullptr,
             request);
}

tbcclResult_t tbcclRecv(void* recvbuff, size_t count, tbcclDataType_t datatype, int peer, int tag,
                        tbcclComm_t comm, tbcclRequest_t* request) {
  return run(comm, {tbcclOpRecv, nullptr, recvbuff, count, datatype, tbcclSum, peer, tag}, nullptr,
             request);
}

tbcclResult_t tbcclBarrier(tbcclComm_t comm, tbcclRequest_t* request) {
  return run(comm, {tbcclOpBarrier, nullptr, nullptr, 0, tbcclInt8, tbcclSum, 0, 0}, nullptr,
             request);
}

tbcclResult_t tbcclSubmit(const tbcclCall_t* given, tbcclRequest_t* request) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    // Fields that an older caller does not have keep their defaults.
    constexpr size_t kFirstSize = offsetof(tbcclCall_t, descriptor) + sizeof(int);
    if (given == nullptr || given->size < kFirstSize || given->magic != TBCCL_CALL_MAGIC) {
      return report(nullptr, Status(tbcclInvalidArgument,
                                    "the call is NULL, or does not begin with "
                                    "TBCCL_CALL_INITIALIZER"));
    }
    if (Status status = check_extras(*given); !status.ok()) return report(given->comm, status);
    return run(given->comm,
               {given->operation, given->sendbuff, given->recvbuff, given->count, given->datatype,
                given->op, given->root, given->tag},
               given, request);
  });
}

tbcclResult_t tbcclRedOpCreatePreMulSum(tbcclRedOp_t* op, const void* scalar,
                                        tbcclDataType_t datatype, tbcclScalarResidence_t residence,
                                        tbcclComm_t comm) {
  return guarded(comm, [&]() -> tbcclResult_t {
    Entry entry(comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    if (op == nullptr || scalar == nullptr || residence != tbcclScalarHostImmediate) {
      return report(comm, Status(tbcclInvalidArgument,
                                 "op or scalar is NULL, or residence is not "
                                 "tbcclScalarHostImmediate"));
    }
    return report(comm, comm->communicator->operators().add_scaled(datatype, scalar, op));
  });
}

tbcclResult_t tbcclRedOpCreate(tbcclRedOp_t* op, tbcclReduceFn function, void* context,
                               int commutative, tbcclComm_t comm) {
  return guarded(comm, [&]() -> tbcclResult_t {
    Entry entry(comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    if (op == nullptr || function == nullptr) {
      return report(comm, Status(tbcclInvalidArgument, "op or function is NULL"));
    }
    return report(comm, comm->communicator->operators().add_function(function, context,
                                                                     commutative != 0, op));
  });
}

tbcclResult_t tbcclRedOpDestroy(tbcclRedOp_t op, tbcclComm_t comm) {
  return guarded(comm, [&]() -> tbcclResult_t {
    Entry entry(comm);
    if (!entry.status().ok()) return report(nullptr, entry.status());
    return report(comm, comm->communicator->operators().remove(op));
  });
}

}  // extern "C"
