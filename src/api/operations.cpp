// The operations: each named function is the short form of a tbcclCall_t.
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

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

comm::Operation plain(tbcclOperation_t operation, const void* send, void* receive, size_t count,
                      tbcclDataType_t type, tbcclRedOp_t op, int root, int tag) {
  comm::Operation result;
  result.operation = operation;
  result.input = send;
  result.output = receive;
  result.count = count;
  result.type = type;
  result.op = op;
  result.root = root;
  result.tag = tag;
  return result;
}

comm::Operation operation_of(const tbcclCall_t& call) {
  comm::Operation result = plain(call.operation, call.sendbuff, call.recvbuff, call.count,
                                 call.datatype, call.op, call.root, call.tag);
  result.receive_count = call.recvcount;
  result.source = call.source;
  result.send_counts = call.sendcounts;
  result.send_places = call.senddispls;
  result.receive_counts = call.recvcounts;
  result.receive_places = call.recvdispls;
  return result;
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
  return run(comm, plain(tbcclOpAllReduce, sendbuff, recvbuff, count, datatype, op, 0, 0), nullptr,
             request);
}

tbcclResult_t tbcclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             tbcclDataType_t datatype, int root, tbcclComm_t comm,
                             tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpBroadcast, sendbuff, recvbuff, count, datatype, tbcclSum, root, 0),
             nullptr, request);
}

tbcclResult_t tbcclReduce(const void* sendbuff, void* recvbuff, size_t count,
                          tbcclDataType_t datatype, tbcclRedOp_t op, int root, tbcclComm_t comm,
                          tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpReduce, sendbuff, recvbuff, count, datatype, op, root, 0), nullptr,
             request);
}

tbcclResult_t tbcclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                             tbcclDataType_t datatype, tbcclComm_t comm, tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpAllGather, sendbuff, recvbuff, sendcount, datatype, tbcclSum, 0, 0),
             nullptr, request);
}

tbcclResult_t tbcclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                 tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                                 tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, 0),
             nullptr, request);
}

tbcclResult_t tbcclAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                            tbcclDataType_t datatype, tbcclComm_t comm, tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpAllToAll, sendbuff, recvbuff, count, datatype, tbcclSum, 0, 0),
             nullptr, request);
}

tbcclResult_t tbcclGather(const void* sendbuff, void* recvbuff, size_t count,
                          tbcclDataType_t datatype, int root, tbcclComm_t comm,
                          tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpGather, sendbuff, recvbuff, count, datatype, tbcclSum, root, 0),
             nullptr, request);
}

tbcclResult_t tbcclScatter(const void* sendbuff, void* recvbuff, size_t count,
                           tbcclDataType_t datatype, int root, tbcclComm_t comm,
                           tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpScatter, sendbuff, recvbuff, count, datatype, tbcclSum, root, 0),
             nullptr, request);
}

tbcclResult_t tbcclScan(const void* sendbuff, void* recvbuff, size_t count,
                        tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                        tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpScan, sendbuff, recvbuff, count, datatype, op, 0, 0), nullptr,
             request);
}

tbcclResult_t tbcclExScan(const void* sendbuff, void* recvbuff, size_t count,
                          tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                          tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpExScan, sendbuff, recvbuff, count, datatype, op, 0, 0), nullptr,
             request);
}

tbcclResult_t tbcclAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                              const size_t* recvcounts, const size_t* recvdispls,
                              tbcclDataType_t datatype, tbcclComm_t comm, tbcclRequest_t* request) {
  comm::Operation operation =
      plain(tbcclOpAllGatherV, sendbuff, recvbuff, sendcount, datatype, tbcclSum, 0, 0);
  operation.receive_counts = recvcounts;
  operation.receive_places = recvdispls;
  return run(comm, operation, nullptr, request);
}

tbcclResult_t tbcclReduceScatterV(const void* sendbuff, const size_t* sendcounts,
                                  const size_t* senddispls, void* recvbuff, size_t recvcount,
                                  tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                                  tbcclRequest_t* request) {
  comm::Operation operation =
      plain(tbcclOpReduceScatterV, sendbuff, recvbuff, 0, datatype, op, 0, 0);
  operation.send_counts = sendcounts;
  operation.send_places = senddispls;
  operation.receive_count = recvcount;
  return run(comm, operation, nullptr, request);
}

tbcclResult_t tbcclAllToAllV(const void* sendbuff, const size_t* sendcounts,
                             const size_t* senddispls, void* recvbuff, const size_t* recvcounts,
                             const size_t* recvdispls, tbcclDataType_t datatype, tbcclComm_t comm,
                             tbcclRequest_t* request) {
  comm::Operation operation =
      plain(tbcclOpAllToAllV, sendbuff, recvbuff, 0, datatype, tbcclSum, 0, 0);
  operation.send_counts = sendcounts;
  operation.send_places = senddispls;
  operation.receive_counts = recvcounts;
  operation.receive_places = recvdispls;
  return run(comm, operation, nullptr, request);
}

tbcclResult_t tbcclGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                           const size_t* recvcounts, const size_t* recvdispls,
                           tbcclDataType_t datatype, int root, tbcclComm_t comm,
                           tbcclRequest_t* request) {
  comm::Operation operation =
      plain(tbcclOpGatherV, sendbuff, recvbuff, sendcount, datatype, tbcclSum, root, 0);
  operation.receive_counts = recvcounts;
  operation.receive_places = recvdispls;
  return run(comm, operation, nullptr, request);
}

tbcclResult_t tbcclScatterV(const void* sendbuff, const size_t* sendcounts,
                            const size_t* senddispls, void* recvbuff, size_t recvcount,
                            tbcclDataType_t datatype, int root, tbcclComm_t comm,
                            tbcclRequest_t* request) {
  comm::Operation operation =
      plain(tbcclOpScatterV, sendbuff, recvbuff, 0, datatype, tbcclSum, root, 0);
  operation.send_counts = sendcounts;
  operation.send_places = senddispls;
  operation.receive_count = recvcount;
  return run(comm, operation, nullptr, request);
}

tbcclResult_t tbcclSendRecv(const void* sendbuff, size_t sendcount, int dest, void* recvbuff,
                            size_t recvcount, int source, tbcclDataType_t datatype, int tag,
                            tbcclComm_t comm, tbcclRequest_t* request) {
  comm::Operation operation =
      plain(tbcclOpSendRecv, sendbuff, recvbuff, sendcount, datatype, tbcclSum, dest, tag);
  operation.receive_count = recvcount;
  operation.source = source;
  return run(comm, operation, nullptr, request);
}

tbcclResult_t tbcclSend(const void* sendbuff, size_t count, tbcclDataType_t datatype, int peer,
                        int tag, tbcclComm_t comm, tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpSend, sendbuff, nullptr, count, datatype, tbcclSum, peer, tag),
             nullptr, request);
}

tbcclResult_t tbcclRecv(void* recvbuff, size_t count, tbcclDataType_t datatype, int peer, int tag,
                        tbcclComm_t comm, tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpRecv, nullptr, recvbuff, count, datatype, tbcclSum, peer, tag),
             nullptr, request);
}

tbcclResult_t tbcclBarrier(tbcclComm_t comm, tbcclRequest_t* request) {
  return run(comm, plain(tbcclOpBarrier, nullptr, nullptr, 0, tbcclInt8, tbcclSum, 0, 0), nullptr,
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
    tbcclCall_t call = TBCCL_CALL_INITIALIZER;
    std::memcpy(&call, given, std::min(given->size, sizeof(call)));
    if (Status status = check_extras(call); !status.ok()) return report(call.comm, status);
    return run(call.comm, operation_of(call), &call, request);
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
