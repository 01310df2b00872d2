// Where a step's bytes lie, and the work on them: arrivals, folds, copies.
#include <algorithm>
#include <cstring>

#include "engine/execution.h"

namespace tbccl::engine {

using schedule::Buffer;
using schedule::Kind;
using schedule::Operand;
using schedule::Phase;

// A zero-length range of a buffer that does not exist has no address.
std::byte* Execution::beginning(const Operand& operand, const Phase& phase, int32_t i) {
  const int32_t piece = phase.piece.at(i) + operand.shift.at(i);
  if (operand.buffer != Buffer::kScratch) {
    std::byte* const user = operand.buffer == Buffer::kInput ? input_ : output_;
    return user == nullptr ? nullptr : user + program_.place(operand.buffer, piece);
  }
  const uint64_t into =
      operand.origin < 0 ? 0 : program_.offset(piece) - program_.offset(operand.origin);
  return scratch_.get() + static_cast<uint64_t>(operand.slot.at(i)) * program_.slot_bytes() + into;
}

// Bytes from the beginning of a range to x, where a slot may be a ring.
uint64_t Execution::within(const Operand& operand, const Step& s, uint64_t x) const {
  const uint64_t length = program_.slot_bytes();
  return operand.buffer == Buffer::kScratch && length > 0 ? (x - s.lo) % length : x - s.lo;
}

std::byte* Execution::source(const Step& s, uint64_t x) const {
  return s.src + within(program_.phase(s.phase).src, s, x);
}

std::byte* Execution::target(const Step& s, uint64_t x) const {
  return s.dst + within(program_.phase(s.phase).dst, s, x);
}

uint64_t Execution::to_wrap(const Step& s, uint64_t x) const {
  const uint64_t length = program_.slot_bytes();
  return length == 0 ? UINT64_MAX : length - (x - s.lo) % length;
}

std::byte* Execution::place(uint32_t index, uint64_t offset, uint32_t length) {
  const Step& s = steps_[index];
  const Phase& phase = program_.phase(s.phase);
  const uint64_t x = s.lo + offset;
  if (phase.kind == Kind::kRecvReduce) return nullptr;
  if (phase.dst.buffer == Buffer::kScratch && length > to_wrap(s, x)) return nullptr;
  return target(s, x);
}

void Execution::arrived(uint32_t index, uint64_t offset, uint32_t length, const std::byte* data,
                        bool last) {
  Step& s = steps_[index];
  const Phase& phase = program_.phase(s.phase);
  uint64_t x = s.lo + offset;
  const uint64_t end = x + length;
  while (x < end) {
    const uint64_t wrap = phase.dst.buffer == Buffer::kScratch ? to_wrap(s, x) : UINT64_MAX;
    const uint64_t part = std::min(end - x, wrap);
    std::byte* const to = target(s, x);
    if (phase.kind == Kind::kRecvReduce) {
      const std::byte* const own = source(s, x);
      const std::byte* const first = phase.received_first ? data : own;
      const std::byte* const second = phase.received_first ? own : data;
      reduce::combine(reduction_, to, first, second, part / element_, phase.finish);
    } else if (to != data) {
      std::memcpy(to, data, part);
    }
    data += part;
    x += part;
  }
  if (length > 0) note_done(s, s.lo + offset, end);
  if (last) {
    s.recv = nullptr;
    s.complete = true;
  }
  advanced(s.phase);
}

// At most `budget` bytes; true: no local work is left that could be done now.
bool Execution::compute(uint64_t* budget) {
  for (int p = 0; p < program_.phases(); ++p) {
    const Kind kind = program_.phase(p).kind;
    if (kind != Kind::kFold && kind != Kind::kCopy && kind != Kind::kScale) continue;
    for (int32_t i = states_[p].first; i < states_[p].started; ++i) {
      Step& s = step(p, i);
      while (s.done < s.open) {
        if (*budget < element_) return false;
        const uint64_t slice = std::min({s.open - s.done, *budget / element_ * element_,
                                         std::max<uint64_t>(to_wrap(s, s.done), 1)});
        compute_range(s, s.done, s.done + slice);
        s.done += slice;
        *budget -= slice;
        s.complete = s.done == s.hi;
        advanced(p);
      }
    }
  }
  return true;
}

// Never across the end of a ring slot.
void Execution::compute_range(const Step& s, uint64_t from, uint64_t to) {
  const Phase& phase = program_.phase(s.phase);
  const uint64_t count = (to - from) / element_;
  std::byte* const dst = target(s, from);
  if (phase.kind == Kind::kCopy) {
    const std::byte* const src = source(s, from);
    if (phase.finish) {
      reduce::copy(reduction_, dst, src, count);
    } else if (dst != src) {
      std::memcpy(dst, src, to - from);
    }
    return;
  }
  if (phase.kind == Kind::kScale) {
    reduce::scale(reduction_, dst, source(s, from), count);
    return;
  }
  sources_.clear();
  const uint64_t slot = program_.slot_bytes(), at = slot == 0 ? 0 : (from - s.lo) % slot;
  for (int32_t k = 0; k < phase.sources; ++k) {
    sources_.push_back(
        k == phase.own ? source(s, from)
                       : scratch_.get() + static_cast<uint64_t>(phase.fold_slot.at(k)) * slot + at);
  }
  reduce::fold(reduction_, dst, sources_.data(), phase.sources, count, phase.finish);
}

}  // namespace tbccl::engine
