// A schedule while an algorithm writes it: the vocabulary that all algorithms share.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace tbccl::algorithms {

using schedule::Affine;
using schedule::Buffer;
using schedule::Collective;
using schedule::Dep;
using schedule::DepKind;
using schedule::Kind;
using schedule::Operand;
using schedule::Phase;
using schedule::Schedule;

inline constexpr int16_t kNoPhase = -1;

inline Affine fixed(int value) { return {value, 0, 0, 0}; }
inline Affine counting(int start, int stride = 1) { return {0, start, stride, 0}; }
inline Affine around(int start, int stride, int modulus, int base = 0) {
  return {base, start, stride, modulus};
}

inline Operand input(Affine shift = {}) { return {Buffer::kInput, -1, {}, shift}; }
inline Operand output(Affine shift = {}) { return {Buffer::kOutput, -1, {}, shift}; }
// A slot that begins with the range, or with piece `origin`.
inline Operand scratch(Affine slot, int origin = -1) {
  return {Buffer::kScratch, origin, slot, {}};
}

// Byte by byte after all iterations of `phase`, or after iteration i + shift.
inline Dep done(int16_t phase, int shift = schedule::kAllIterations) {
  return {phase, DepKind::kDone, shift};
}
// After the bytes of a send cannot be read any more.
inline Dep released(int16_t phase, int shift = schedule::kAllIterations) {
  return {phase, DepKind::kReleased, shift};
}

// Consecutive pieces from piece.at(i) on.
struct Range {
  Affine piece;
  int pieces = 1;
};

// Where a pre-multiplied sum's scaled contribution is kept if the output has no room for it: in a
// slot for each piece, or in one slot with all of them.
enum class Apart { kSlots, kOneSlot };

class Draft {
 public:
  // `pieces` of each block. A pre-multiplied sum begins with the scale from input to output, where
  // that holds as much, and is in place from then on; otherwise to the first scratch slots.
  Draft(const char* algorithm, const Collective& collective, int rank, int size, int pieces,
        bool rank_order, Apart apart = Apart::kSlots);

  // True where the own contribution lies in the output, so that receiving there destroys it.
  bool in_place() const { return in_place_; }
  // Where the own contribution lies: at any range of pieces, or one that needs no slot of its own.
  Operand own(Affine piece) const;
  Operand own() const { return own(fixed(0)); }
  const std::vector<Dep>& ready() const { return ready_; }  // and when
  Range all() const { return {fixed(0), schedule_.pieces}; }
  int kept_slots() const { return kept_slots_; }  // the first ones, which hold it

  // Each adds a phase and returns its number. `repeat` 0 adds nothing and returns kNoPhase;
  // dependencies on kNoPhase are left out.
  int16_t send(int repeat, Affine peer, Range range, Affine tag, Operand src,
               std::vector<Dep> deps);
  int16_t recv(int repeat, Affine peer, Range range, Affine tag, Operand dst, std::vector<Dep> deps,
               int16_t consumer = kNoPhase);
  // The phase combines what it receives with `src`; `finish` if that is the last combination.
  int16_t recv_reduce(int repeat, Affine peer, Range range, Affine tag, Operand src, Operand dst,
                      bool received_first, bool finish, std::vector<Dep> deps);
  // `finish` but where the result is combined further.
  int16_t fold(Range range, int sources, int own, Affine slot, Operand dst, std::vector<Dep> deps,
               bool finish = true);
  int16_t copy(Range range, Operand src, Operand dst, bool finish, std::vector<Dep> deps);

  // An iteration for each range.
  int16_t copy_each(int repeat, Range range, Operand src, Operand dst, std::vector<Dep> deps = {});

  int16_t next() const { return static_cast<int16_t>(schedule_.phases.size()); }
  // Besides those that hold the own contribution.
  void scratch_slots(int slots) { schedule_.scratch_slots = kept_slots_ + slots; }
  Schedule take() { return std::move(schedule_); }

 private:
  int16_t add(Phase phase);

  Schedule schedule_;
  bool in_place_ = false;
  Operand own_;
  int kept_slots_ = 0;
  std::vector<Dep> ready_;
};

std::vector<Dep> with(std::vector<Dep> deps, std::initializer_list<Dep> more);

// The only rank of a group, in any operation: its contribution, finished, is the result.
Schedule make_alone(const char* algorithm, const Collective& collective);

}  // namespace tbccl::algorithms
