#include "schedule/schedule.h"

#include <algorithm>

namespace tbccl::schedule {

namespace {

constexpr uint64_t kLine = 64;  // pieces begin on cache lines where that does not unbalance them

// Below this many cache lines a piece, whole lines would make pieces visibly unequal (one line in
// sixteen is 6 %); then the unit is one element.
constexpr uint64_t kLinesForBalance = 16;

bool has_source(const Phase& phase) {
  return phase.kind != Kind::kRecv && (phase.kind != Kind::kFold || phase.own >= 0);
}

// Bytes from the beginning of a slot to the end of the longest range that lies in it.
uint64_t reach(const Phase& phase, const Operand& operand, std::span<const uint64_t> offsets) {
  if (operand.buffer != Buffer::kScratch) return 0;
  const bool moves = phase.piece.stride != 0 || operand.shift.stride != 0;
  uint64_t longest = 0;
  for (int32_t i = 0; i < (moves ? phase.repeat : std::min(phase.repeat, 1)); i++) {
    const int32_t first = phase.piece.at(i) + operand.shift.at(i);
    const int32_t begin = operand.origin < 0 ? first : operand.origin;
    longest = std::max(longest, offsets[static_cast<size_t>(first + phase.pieces)] -
                                    offsets[static_cast<size_t>(begin)]);
  }
  return longest;
}

}  // namespace

int32_t Affine::at(int32_t i) const {
  const int64_t value = int64_t{start} + int64_t{stride} * i;
  if (modulus == 0) return static_cast<int32_t>(base + value);
  const int64_t rest = value % modulus;
  return static_cast<int32_t>(base + (rest < 0 ? rest + modulus : rest));
}

void piece_offsets(int32_t pieces, uint64_t count, uint32_t element, std::span<uint64_t> offsets) {
  const auto n = static_cast<uint64_t>(pieces);
  uint64_t unit = 1;  // elements
  if (element > 0 && kLine % element == 0 && count / (kLine / element) >= kLinesForBalance * n)
    unit = kLine / element;
  const uint64_t units = count / unit;
  const uint64_t each = units / n;
  const uint64_t longer = units % n;  // so many pieces have one unit more
  for (uint64_t k = 0; k < n; k++) offsets[k] = (k * each + std::min(k, longer)) * unit * element;
  offsets[n] = count * element;
}

void block_offsets(const Schedule& schedule, uint64_t count, uint32_t element,
                   std::span<uint64_t> offsets) {
  const auto each = static_cast<size_t>(schedule.pieces / schedule.blocks);
  piece_offsets(static_cast<int32_t>(each), count, element, offsets.first(each + 1));
  const uint64_t block = count * element;
  for (size_t k = each + 1; k < offsets.size(); k++) offsets[k] = offsets[k - each] + block;
}

void block_offsets(const Schedule& schedule, std::span<const uint64_t> counts, uint32_t element,
                   std::span<uint64_t> offsets) {
  const auto each = static_cast<size_t>(schedule.pieces / schedule.blocks);
  uint64_t begin = 0;
  for (size_t block = 0; block < counts.size(); block++) {
    const std::span<uint64_t> own = offsets.subspan(block * each, each + 1);
    piece_offsets(static_cast<int32_t>(each), counts[block], element, own);
    for (uint64_t& offset : own) offset += begin;
    begin = own.back();
  }
}

uint64_t scratch_slot_bytes(const Schedule& schedule, std::span<const uint64_t> offsets,
                            uint64_t window) {
  uint64_t bytes = 0;
  for (const Phase& phase : schedule.phases) {
    uint64_t longest = has_source(phase) ? reach(phase, phase.src, offsets) : 0;
    if (phase.kind != Kind::kSend) longest = std::max(longest, reach(phase, phase.dst, offsets));
    bytes = std::max(bytes, phase.consumer >= 0 ? std::min(longest, window) : longest);
  }
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace tbccl::schedule
