#include "exercise.h"

#include <algorithm>
#include <cstring>

#include "base/formatted.h"
#include "perf/verify.h"

namespace soak {
namespace {

constexpr size_t kAlignment = 64;

uint64_t extent(const std::vector<Block>& blocks) {
  uint64_t end = 0;
  for (const Block& block : blocks) end = std::max(end, block.at + block.count);
  return end;
}

std::byte unwritten(size_t i) { return static_cast<std::byte>(0xa5 ^ (i * 151 >> 3)); }

const char* name(tbcclOperation_t operation) {
  constexpr const char* names[] = {
      "all-reduce", "broadcast",    "message",        "receive",          "barrier",
      "reduce",     "all-gather",   "reduce-scatter", "all-to-all",       "gather",
      "scatter",    "send-receive", "all-gather-v",   "reduce-scatter-v", "all-to-all-v",
      "gather-v",   "scatter-v",    "scan",           "exclusive scan"};
  return names[operation];
}

}  // namespace

Memory::~Memory() {
  if (shared_ != nullptr) (void)tbcclMemFree(shared_);
}

void Memory::allocate(size_t bytes, size_t skew, bool shared) {
  bytes_ = bytes;
  const size_t all = whole_bytes() + skew + kAlignment;
  if (shared && tbcclMemAlloc(&shared_, all) == tbcclSuccess) {
    begin_ = static_cast<std::byte*>(shared_) + skew;
  } else {
    ordinary_.resize(all);
    const auto at = reinterpret_cast<uintptr_t>(ordinary_.data());
    begin_ = ordinary_.data() + (kAlignment - at % kAlignment) % kAlignment + skew;
  }
  reset();
}

void Memory::reset() {
  for (size_t i = 0; i < whole_bytes(); ++i) begin_[i] = unwritten(i);
}

Exercise::Exercise(const Call& call, tbcclComm_t comm, int rank, Role role)
    : call_(call), comm_(comm), rank_(rank), role_(role), layout_(layout_of(call, rank, role)) {}

Exercise::~Exercise() { drop_operator(); }

std::string Exercise::prepare() {
  op_ = call_.op.code;
  tbcclResult_t result = tbcclSuccess;
  if (call_.combining == Combining::kScaled) {
    std::byte scalar[16];
    tbccl::perf::fill_scalar(call_.type, rank_, scalar);
    result =
        tbcclRedOpCreatePreMulSum(&op_, scalar, call_.type.code, tbcclScalarHostImmediate, comm_);
  } else if (call_.combining == Combining::kAffine) {
    result = tbcclRedOpCreate(&op_, apply_affine, nullptr, 0, comm_);
  }
  if (result != tbcclSuccess) {
    return tbccl::formatted("{}: making the operator: {}", text(), tbcclGetLastError(comm_));
  }
  made_operator_ = call_.combining == Combining::kScaled || call_.combining == Combining::kAffine;

  Draw draw(derived(call_.variety, static_cast<uint64_t>(rank_), 7));
  const size_t element = std::max<size_t>(call_.type.bytes, 1);
  const uint64_t send = layout_.send_at + extent(layout_.send);
  const uint64_t recv = layout_.recv_at + extent(layout_.recv);
  if (!layout_.in_place) send_.allocate(send * element, element * draw.below(9), draw.chance(25));
  recv_.allocate((layout_.in_place ? std::max(send, recv) : recv) * element,
                 element * draw.below(9), draw.chance(25));
  fill_memory();
  return "";
}

void Exercise::renew(uint64_t seed) {
  call_.seed = seed;
  if (!layout_.in_place) send_.reset();
  recv_.reset();
  fill_memory();
}

void Exercise::drop_operator() {
  if (made_operator_) (void)tbcclRedOpDestroy(op_, comm_);
  made_operator_ = false;
}

void Exercise::fill_memory() {
  std::byte* const base = layout_.in_place ? recv_.data() : send_.data();
  for (const Block& block : layout_.send) {
    fill(call_, block, base + (layout_.send_at + block.at) * call_.type.bytes);
  }
  if (!layout_.in_place) {
    send_before_.assign(send_.whole(), send_.whole() + send_.whole_bytes());
  }
  recv_before_.assign(recv_.whole(), recv_.whole() + recv_.whole_bytes());
}

tbcclCall_t Exercise::submission() {
  tbcclCall_t call = TBCCL_CALL_INITIALIZER;
  call.operation = role_ == Role::kReceiver ? tbcclOpRecv : call_.operation;
  call.comm = comm_;
  call.datatype = call_.type.code;
  call.op = op_;
  call.root = call_.root;
  call.tag = call_.tag;
  const size_t element = call_.type.bytes;
  std::byte* const send = layout_.in_place ? recv_.data() : send_.data();
  if (layout_.sends) call.sendbuff = send + layout_.send_at * element;
  if (layout_.receives) call.recvbuff = recv_.data() + layout_.recv_at * element;
  if (!call_.counts.empty()) call.count = call_.count();
  if (!layout_.send_counts.empty()) call.sendcounts = layout_.send_counts.data();
  if (!layout_.recv_counts.empty()) call.recvcounts = layout_.recv_counts.data();
  if (layout_.displaced && call.sendcounts != nullptr) call.senddispls = layout_.send_places.data();
  if (layout_.displaced && call.recvcounts != nullptr) call.recvdispls = layout_.recv_places.data();
  switch (call_.operation) {
    case tbcclOpSend:
      call.root =
          role_ == Role::kReceiver ? (call_.any_source ? TBCCL_ANY_SOURCE : call_.from) : call_.to;
      break;
    case tbcclOpSendRecv:
      call.root = (rank_ + call_.distance) % call_.ranks;
      call.source = call_.any_source ? TBCCL_ANY_SOURCE
                                     : (rank_ + call_.ranks - call_.distance) % call_.ranks;
      call.recvcount = call_.count();
      break;
    case tbcclOpAllGatherV:
    case tbcclOpGatherV:
      call.count = layout_.send.front().count;
      break;
    case tbcclOpReduceScatterV:
    case tbcclOpScatterV:
      call.count = 0;
      call.recvcount = layout_.recv.front().count;
      break;
    default:
      break;
  }
  return call;
}

std::vector<std::byte> Exercise::expected(const Memory& memory,
                                          const std::vector<std::byte>& before,
                                          const std::vector<Block>& blocks, uint64_t at) const {
  std::vector<std::byte> bytes = before;
  for (Block block : blocks) {
    if (source_ >= 0) block.rank = source_;
    fill(call_, block,
         bytes.data() + (memory.data() - memory.whole()) + (at + block.at) * call_.type.bytes);
  }
  return bytes;
}

std::string Exercise::check() const {
  if (!layout_.in_place &&
      std::memcmp(send_.whole(), send_before_.data(), send_before_.size()) != 0) {
    return text() + ": the send buffer, or memory beside it, was written";
  }
  const std::vector<std::byte> right = expected(recv_, recv_before_, layout_.recv, layout_.recv_at);
  const auto [wrong, other] = std::mismatch(right.begin(), right.end(), recv_.whole());
  if (wrong == right.end()) return "";
  const auto at = wrong - right.begin() - static_cast<std::ptrdiff_t>(Memory::kGuard);
  return tbccl::formatted(
      "{}: byte {} of the receive buffer ({} with its gaps) is {:#x}, should be {:#x}", text(), at,
      right.size() - 2 * Memory::kGuard, static_cast<unsigned>(*other),
      static_cast<unsigned>(*wrong));
}

std::string Exercise::text() const {
  std::string counts;
  for (const uint64_t count : call_.counts) counts += tbccl::formatted(" {}", count);
  return tbccl::formatted(
      "{}{} on communicator {} as rank {} of {} ({}, {}{}, root {}, {} -> {}, tag {}, counts{})",
      name(call_.operation),
      role_ == Role::kWhole ? "" : (role_ == Role::kSender ? " sent" : " received"), call_.slot,
      rank_, call_.ranks, call_.type.name,
      call_.combining == Combining::kNothing ? "no operator" : call_.op.name,
      layout_.in_place ? ", in place" : "", call_.root, call_.from, call_.to, call_.tag, counts);
}

}  // namespace soak
