// From what a caller asks for to what the engine carries out: checks, fingerprint, plan.

#include <algorithm>

#include "base/formatted.h"
#include "base/hash.h"
#include "comm/buffers.h"
#include "comm/communicator.h"

namespace tbccl::comm {
namespace {

struct Name {
  tbcclOperation_t operation;
  const char* text;
  bool rooted;
};
constexpr Name kNames[] = {
    {tbcclOpAllReduce, "all-reduce", false},
    {tbcclOpBroadcast, "broadcast", true},
    {tbcclOpSend, "send", false},
    {tbcclOpRecv, "receive", false},
    {tbcclOpBarrier, "barrier", false},
    {tbcclOpReduce, "reduce", true},
    {tbcclOpAllGather, "all-gather", false},
    {tbcclOpReduceScatter, "reduce-scatter", false},
    {tbcclOpAllToAll, "all-to-all", false},
    {tbcclOpGather, "gather", true},
    {tbcclOpScatter, "scatter", true},
    {tbcclOpSendRecv, "send-receive", false},
    {tbcclOpAllGatherV, "all-gather-v", false},
    {tbcclOpReduceScatterV, "reduce-scatter-v", false},
    {tbcclOpAllToAllV, "all-to-all-v", false},
    {tbcclOpGatherV, "gather-v", true},
    {tbcclOpScatterV, "scatter-v", true},
    {tbcclOpScan, "scan", false},
    {tbcclOpExScan, "exclusive scan", false},
};

const Name* find_name(tbcclOperation_t operation) {
  for (const Name& name : kNames) {
    if (name.operation == operation) return &name;
  }
  return nullptr;
}

// By the text that a call carries.
const Name& name_of(const engine::Call& call) {
  for (const Name& name : kNames) {
    if (name.text == call.operation) return name;
  }
  return kNames[0];
}

std::string describe_message(const engine::Call& call, const char* type) {
  if (call.kind == engine::RequestKind::kSendRecv) {
    return formatted("{}({} to rank {}, {} from rank {}, {}, tag {})", call.operation,
                     call.send_count, call.to, call.count, call.peer, type, call.tag);
  }
  return formatted("{}(count {}, {}, {} {}, tag {})", call.operation, call.count, type,
                   call.kind == engine::RequestKind::kSend ? "to rank" : "from rank", call.peer,
                   call.tag);
}

// Of a v-form: all that this rank has of them.
std::string counts_text(const engine::Call& call) {
  if (call.blocks == nullptr) return formatted("count {}", call.count);
  constexpr size_t kMost = 8;
  std::string text = "counts";
  const auto& counts = call.blocks->counts;
  for (size_t i = 0; i < counts.size() && i < kMost; ++i) text += formatted(" {}", counts[i]);
  return counts.size() > kMost ? text + " ..." : text;
}

std::string describe_call(const engine::Call& call) {
  const reduce::Reduction& r = call.reduction;
  const char* type = reduce::name_of(r.type);
  if (call.kind != engine::RequestKind::kSchedule) return describe_message(call, type);
  const std::string& algorithm = call.plan->schedule.algorithm;
  const Name& name = name_of(call);
  if (name.operation == tbcclOpBarrier) return "barrier()";
  std::string text = formatted("{}({}, {}", call.operation, counts_text(call), type);
  if (schedule::reduces(name.operation)) {
    text += formatted(", {}", r.user != nullptr ? "user function"
                              : r.scaled        ? "mulsum"
                                                : reduce::name_of(r.op));
  }
  if (name.rooted) text += formatted(", root {}", call.peer);
  return text + formatted("; {})", algorithm);
}

Status bad(std::string text) { return {tbcclInvalidArgument, std::move(text)}; }

// Of the v-forms: those where every rank gives all ranks' counts.
bool all_know(tbcclOperation_t operation) {
  return operation == tbcclOpAllGatherV || operation == tbcclOpReduceScatterV;
}

}  // namespace

struct Memo::Entry {
  Operation operation;
  Buffers buffers;
  engine::Call call;  // no plan: there is none yet
};

Memo::Memo() : entries_(std::make_unique<Entry[]>(kEntries)) {}
Memo::~Memo() = default;

// Rooted operations are often called with one root after the other.
size_t Memo::place_of(const Operation& o) {
  return (static_cast<size_t>(o.operation) * 3 + static_cast<size_t>(o.root)) % kEntries;
}

bool Memo::recall(const Operation& o, engine::Call* call) {
  const std::lock_guard<std::mutex> hold(lock_);
  const Entry& known = entries_[place_of(o)];
  const Operation& k = known.operation;
  if (known.call.plan == nullptr || o.operation != k.operation || o.count != k.count ||
      o.type != k.type || o.op != k.op || o.root != k.root || !same_buffers(o, known.buffers)) {
    return false;
  }
  *call = known.call;
  call->input = o.input;
  call->output = o.output;
  return true;
}

void Memo::keep(const Operation& o, const Buffers& buffers, const engine::Call& call) {
  const std::lock_guard<std::mutex> hold(lock_);
  entries_[place_of(o)] = {o, buffers, call};
}

Status Communicator::prepare(const Operation& operation, engine::Call* call) {
  if (memo_.recall(operation, call)) return {};
  const Name* const known = find_name(operation.operation);
  if (known == nullptr) {
    return bad(formatted("{} is not an operation", static_cast<int>(operation.operation)));
  }
  const char* const name = known->text;
  const uint32_t element = reduce::size_of(operation.type);
  if (element == 0) {
    return bad(formatted("{}: {} is not a data type", name, static_cast<int>(operation.type)));
  }
  if (std::max(operation.count, operation.receive_count) > PTRDIFF_MAX / element) {
    return bad(formatted("{}: {} elements of {} bytes do not fit into memory", name,
                         std::max(operation.count, operation.receive_count), element));
  }
  call->operation = name;
  call->count = operation.count;
  call->input = operation.input;
  call->output = operation.output;
  call->describe = describe_call;
  call->timeout_ns = settings_.timeout_ns;
  switch (operation.operation) {
    case tbcclOpSend:
    case tbcclOpRecv:
      return prepare_message(operation, call);
    case tbcclOpSendRecv:
      return prepare_send_receive(operation, call);
    default:
      return prepare_collective(operation, call);
  }
}

Status Communicator::check_peer(const Operation& operation, const char* name, int peer, bool any) {
  if (!any && (peer < 0 || peer >= size_)) {
    return bad(formatted("{}: peer {} is not a rank of this communicator (0 to {})", name, peer,
                         size_ - 1));
  }
  if (operation.tag < 0) return bad(formatted("{}: tag {} is negative", name, operation.tag));
  return {};
}

uint64_t Communicator::message_print(uint64_t count, tbcclDataType_t type) const {
  Fingerprint print;
  print.add(basis_hash_);
  print.add(static_cast<uint64_t>(tbcclOpSend));
  print.add(count);
  print.add(static_cast<uint64_t>(type));
  return print.value();
}

// Each end of it may meet a plain send or receive of another rank.
Status Communicator::prepare_send_receive(const Operation& o, engine::Call* call) {
  const bool any = o.source == TBCCL_ANY_SOURCE;
  if (Status s = check_peer(o, call->operation, o.root, false); !s.ok()) return s;
  if (Status s = check_peer(o, call->operation, o.source, any); !s.ok()) return s;
  const uint64_t element = reduce::size_of(o.type);
  const uint64_t sent = o.count * element, received = o.receive_count * element;
  if ((sent > 0 && o.input == nullptr) || (received > 0 && o.output == nullptr)) {
    return bad(formatted("{}: {} is NULL and its count is not zero", call->operation,
                         received > 0 && o.output == nullptr ? "recvbuff" : "sendbuff"));
  }
  if (sent > 0 && received > 0) {
    const auto x = reinterpret_cast<uintptr_t>(o.input);
    const auto y = reinterpret_cast<uintptr_t>(o.output);
    if (x < y ? y - x < sent : x - y < received) {
      return bad(formatted("{}: sendbuff and recvbuff overlap", call->operation));
    }
  }
  call->kind = engine::RequestKind::kSendRecv;
  call->to = o.root;
  call->peer = o.source;
  call->tag = o.tag;
  call->send_count = o.count;
  call->count = o.receive_count;
  call->reduction.type = o.type;
  call->send_fingerprint = message_print(o.count, o.type);
  call->fingerprint = message_print(o.receive_count, o.type);
  return {};
}

Status Communicator::prepare_message(const Operation& operation, engine::Call* call) {
  const bool sends = operation.operation == tbcclOpSend;
  const bool any = !sends && operation.root == TBCCL_ANY_SOURCE;
  if (Status status = check_peer(operation, call->operation, operation.root, any); !status.ok()) {
    return status;
  }
  const void* buffer = sends ? operation.input : operation.output;
  if (buffer == nullptr && operation.count > 0) {
    return bad(
        formatted("{}: the buffer is NULL and count is {}", call->operation, operation.count));
  }
  call->kind = sends ? engine::RequestKind::kSend : engine::RequestKind::kRecv;
  call->peer = operation.root;
  call->tag = operation.tag;
  call->reduction.type = operation.type;
  call->fingerprint = message_print(operation.count, operation.type);
  return {};
}

Status Communicator::prepare_collective(const Operation& operation, engine::Call* call) {
  const Name& name = name_of(*call);
  if (name.rooted && (operation.root < 0 || operation.root >= size_)) {
    return bad(formatted("{}: root {} is not a rank of this communicator (0 to {})", name.text,
                         operation.root, size_ - 1));
  }
  Buffers buffers;
  if (Status s = read_buffers(operation, name.text, rank_, size_, &buffers); !s.ok()) return s;
  const bool reduces =
      schedule::reduces(operation.operation) && operation.operation != tbcclOpBarrier;
  if (!reduces) {
    call->reduction.type = operation.type;
  } else if (Status status = operators_.find(operation.type, operation.op,
                                             contributors(operation.operation), &call->reduction);
             !status.ok()) {
    return {status.code(), formatted("{}: {}", call->operation, status.text())};
  }
  call->blocks = buffers.blocks;
  // Ranks that do not all know all lengths take the same algorithm whatever they know.
  const bool known = call->blocks == nullptr || all_know(operation.operation);
  uint64_t total = 0;
  if (call->blocks != nullptr && known) {
    for (const uint64_t count : call->blocks->counts) total += count;
  }
  selection::Question question;
  question.collective.operation = operation.operation;
  question.collective.in_place = buffers.in_place;
  question.collective.scale = call->reduction.scaled;
  question.collective.root = name.rooted ? operation.root : 0;
  question.count = call->blocks == nullptr ? operation.count : total / static_cast<uint64_t>(size_);
  question.element = reduce::size_of(operation.type);
  question.needs_rank_order = !call->reduction.commutative;
  if (Status status = plans_->find(question, &call->plan); !status.ok()) return status;
  call->kind = engine::RequestKind::kSchedule;
  call->peer = question.collective.root;
  Fingerprint print;
  print.add(basis_hash_);
  print.add(static_cast<uint64_t>(operation.operation));
  if (call->blocks == nullptr) {
    print.add(operation.count);
  } else if (known) {
    for (const uint64_t count : call->blocks->counts) print.add(count);
  }
  print.add(static_cast<uint64_t>(operation.type));
  print.add(static_cast<uint64_t>(question.collective.root));
  print.add(call->plan->hash);
  if (reduces) {
    const reduce::Reduction& r = call->reduction;
    print.add(r.user != nullptr ? (r.commutative ? 2u : 3u) << 16
                                : static_cast<uint64_t>(r.op) | (r.scaled ? 1u << 20 : 0u));
  }
  call->fingerprint = print.value();
  // The numbers of created operators are used again.
  const bool lasting = call->reduction.user == nullptr && !call->reduction.scaled;
  if (lasting && call->blocks == nullptr) memo_.keep(operation, buffers, *call);
  return {};
}

// Ranks whose contributions are in this rank's result: the divisor of an average.
int Communicator::contributors(tbcclOperation_t operation) const {
  if (operation == tbcclOpScan) return rank_ + 1;
  return operation == tbcclOpExScan ? std::max(rank_, 1) : size_;
}

}  // namespace tbccl::comm
