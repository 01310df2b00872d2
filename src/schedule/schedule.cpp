#include "schedule/schedule.h"

#include <algorithm>

namespace tbccl::schedule {

namespace {

constexpr uint64_t kLine = 64;  // pieces begin on cache lines where that does not unbalance them

// Below this many cache lines a piece, whole lines would make pieces visibly unequal (one line in
// sixteen is 6 %); then the unit is one element.
constexpr uint64_t kLinesForBalance = 16;

uint64_t range_bytes(const Phase& phase, std::span<const uint64_t> offsets, int32_t iteration) {
  const int32_t first = phase.piece.at(iteration);
  return offsets[static_cast<size_t>(first + phase.pieces)] - offsets[static_cast<size_t>(first)];
}

uint64_t longest_range(const Phase& phase, std::span<const uint64_t> offsets) {
  const int32_t iterations = phase.piece.stride == 0 ? std::min(phase.repeat, 1) : phase.repeat;
  uint64_t longest = 0;
  for (int32_t i = 0; i < iterations; i++)
    longest = std::max(longest, range_bytes(phase, offsets, i));
  return longest;
}

bool has_source(const Phase& phase) {
  return phase.kind != Kind::kRecv && (phase.kind != Kind::kFold || phase.own >= 0);
}

bool uses_scratch(const Phase& phase) {
  return (has_source(phase) && phase.src.buffer == Buffer::kScratch) ||
         (phase.kind != Kind::kSend && phase.dst.buffer == Buffer::kScratch);
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

uint64_t scratch_slot_bytes(const Schedule& schedule, std::span<const uint64_t> offsets,
                            uint64_t window) {
  uint64_t bytes = 0;
  for (const Phase& phase : schedule.phases) {
    if (!uses_scratch(phase)) continue;
    const uint64_t longest = longest_range(phase, offsets);
    bytes = std::max(bytes, phase.consumer >= 0 ? std::min(longest, window) : longest);
  }
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace tbccl::schedule
