// From what a caller asks for to what the engine carries out: checks, fingerprint, plan.
#include <fmt/core.h>

#include "base/hash.h"
#include "comm/communicator.h"

namespace tbccl::comm {
namespace {

std::string describe_call(const engine::Call& call) {
  const reduce::Reduction& r = call.reduction;
  const char* type = reduce::name_of(r.type);
  if (call.kind != engine::RequestKind::kSchedule) {
    return fmt::format("{}(count {}, {}, {} {}, tag {})", call.operation, call.count, type,
                       call.kind == engine::RequestKind::kSend ? "to rank" : "from rank", call.peer,
                       call.tag);
  }
  const std::string& algorithm = call.plan->schedule.algorithm;
  const std::string_view operation = call.operation;
  if (operation == "barrier") return "barrier()";
  if (operation == "broadcast") {
    return fmt::format("broadcast(count {}, {}, root {}; {})", call.count, type, call.peer,
                       algorithm);
  }
  const char* op = r.user != nullptr ? "user function"
                   : r.scaled        ? "mulsum"
                                     : reduce::name_of(r.op);
  return fmt::format("{}(count {}, {}, {}; {})", call.operation, call.count, type, op, algorithm);
}

Status bad(std::string text) { return {tbcclInvalidArgument, std::move(text)}; }

// Byte ranges that are neither equal nor disjoint cannot be meant.
bool overlap(const void* a, const void* b, uint64_t bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a);
  const auto y = reinterpret_cast<uintptr_t>(b);
  return x != y && (x < y ? y - x : x - y) < bytes;
}

const char* name_of(tbcclOperation_t operation) {
  switch (operation) {
    case tbcclOpAllReduce:
      return "all-reduce";
    case tbcclOpBroadcast:
      return "broadcast";
    case tbcclOpSend:
      return "send";
    case tbcclOpRecv:
      return "receive";
    case tbcclOpBarrier:
      return "barrier";
  }
  return nullptr;
}

}  // namespace

bool Memo::recall(const Operation& o, engine::Call* call) {
  const bool in_place = o.input == o.output;
  const std::lock_guard<std::mutex> hold(lock_);
  if (call_.plan == nullptr || o.operation != operation_.operation || o.count != operation_.count ||
      o.type != operation_.type || o.op != operation_.op || o.root != operation_.root ||
      in_place != in_place_) {
    return false;
  }
  // The other kinds have buffers that are read or written by some ranks only.
  if (o.operation != tbcclOpAllReduce || o.input == nullptr || o.output == nullptr ||
      overlap(o.input, o.output, bytes_)) {
    return false;
  }
  *call = call_;
  call->input = o.input;
  call->output = o.output;
  return true;
}

void Memo::keep(const Operation& o, uint64_t bytes, const engine::Call& call) {
  const std::lock_guard<std::mutex> hold(lock_);
  operation_ = o;
  in_place_ = o.input == o.output;
  bytes_ = bytes;
  call_ = call;
}

Status Communicator::prepare(const Operation& operation, engine::Call* call) {
  if (memo_.recall(operation, call)) return {};
  const char* name = name_of(operation.operation);
  if (name == nullptr) {
    return bad(fmt::format("{} is not an operation", static_cast<int>(operation.operation)));
  }
  const uint32_t element = reduce::size_of(operation.type);
  if (element == 0) {
    return bad(fmt::format("{}: {} is not a data type", name, static_cast<int>(operation.type)));
  }
  if (operation.count > PTRDIFF_MAX / element) {
    return bad(fmt::format("{}: {} elements of {} bytes do not fit into memory", name,
                           operation.count, element));
  }
  call->operation = name;
  call->count = operation.count;
  call->input = operation.input;
  call->output = operation.output;
  call->describe = describe_call;
  call->timeout_ns = settings_.timeout_ns;
  const bool message = operation.operation == tbcclOpSend || operation.operation == tbcclOpRecv;
  return message ? prepare_message(operation, call) : prepare_collective(operation, call);
}

Status Communicator::prepare_message(const Operation& operation, engine::Call* call) {
  const bool sends = operation.operation == tbcclOpSend;
  const bool any = !sends && operation.root == TBCCL_ANY_SOURCE;
  if (!any && (operation.root < 0 || operation.root >= size_)) {
    return bad(fmt::format("{}: peer {} is not a rank of this communicator (0 to {})",
                           call->operation, operation.root, size_ - 1));
  }
  if (operation.tag < 0) {
    return bad(fmt::format("{}: tag {} is negative", call->operation, operation.tag));
  }
  const void* buffer = sends ? operation.input : operation.output;
  if (buffer == nullptr && operation.count > 0) {
    return bad(
        fmt::format("{}: the buffer is NULL and count is {}", call->operation, operation.count));
  }
  call->kind = sends ? engine::RequestKind::kSend : engine::RequestKind::kRecv;
  call->peer = operation.root;
  call->tag = operation.tag;
  call->reduction.type = operation.type;
  Fingerprint print;
  print.add(basis_hash_);
  print.add(static_cast<uint64_t>(tbcclOpSend));
  print.add(operation.count);
  print.add(static_cast<uint64_t>(operation.type));
  call->fingerprint = print.value();
  return {};
}

Status Communicator::prepare_collective(const Operation& operation, engine::Call* call) {
  const bool barrier = operation.operation == tbcclOpBarrier;
  const bool broadcast = operation.operation == tbcclOpBroadcast;
  if (broadcast && (operation.root < 0 || operation.root >= size_)) {
    return bad(fmt::format("broadcast: root {} is not a rank of this communicator (0 to {})",
                           operation.root, size_ - 1));
  }
  const bool reads = !barrier && (!broadcast || operation.root == rank_);
  const uint64_t bytes = operation.count * reduce::size_of(operation.type);
  if (bytes > 0 && ((reads && operation.input == nullptr) || operation.output == nullptr)) {
    return bad(fmt::format("{}: {} is NULL and count is {}", call->operation,
                           operation.output == nullptr ? "recvbuff" : "sendbuff", operation.count));
  }
  if (reads && overlap(operation.input, operation.output, bytes)) {
    return bad(
        fmt::format("{}: sendbuff and recvbuff overlap without being equal", call->operation));
  }
  if (broadcast || barrier) {
    call->reduction.type = operation.type;
  } else if (Status status = operators_.find(operation.type, operation.op, size_, &call->reduction);
             !status.ok()) {
    return {status.code(), fmt::format("{}: {}", call->operation, status.text())};
  }
  selection::Question question;
  question.collective.operation = operation.operation;
  question.collective.in_place = bytes > 0 && reads && operation.input == operation.output;
  question.collective.scale = call->reduction.scaled;
  question.collective.root = broadcast ? operation.root : 0;
  question.count = operation.count;
  question.element = reduce::size_of(operation.type);
  question.needs_rank_order = !call->reduction.commutative;
  if (Status status = plans_->find(question, &call->plan); !status.ok()) return status;
  call->kind = engine::RequestKind::kSchedule;
  call->peer = question.collective.root;
  Fingerprint print;
  print.add(basis_hash_);
  print.add(static_cast<uint64_t>(operation.operation));
  print.add(operation.count);
  print.add(static_cast<uint64_t>(operation.type));
  print.add(static_cast<uint64_t>(question.collective.root));
  print.add(call->plan->hash);
  if (!broadcast && !barrier) {
    const reduce::Reduction& r = call->reduction;
    print.add(r.user != nullptr ? (r.commutative ? 2u : 3u) << 16
                                : static_cast<uint64_t>(r.op) | (r.scaled ? 1u << 20 : 0u));
  }
  call->fingerprint = print.value();
  // The numbers of created operators are used again.
  const bool lasting = call->reduction.user == nullptr && !call->reduction.scaled;
  if (operation.operation == tbcclOpAllReduce && lasting && bytes <= engine::kTinyBytes) {
    memo_.keep(operation, bytes, *call);
  }
  return {};
}

}  // namespace tbccl::comm
