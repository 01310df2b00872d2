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

inline Operand input() { return {Buffer::kInput, 0, {}}; }
inline Operand output() { return {Buffer::kOutput, 0, {}}; }
inline Operand scratch(Affine slot) { return {Buffer::kScratch, 0, slot}; }

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

class Draft {
 public:
  // A pre-multiplied sum begins with the scale from input to output and is in place from then on.
  Draft(const char* algorithm, const Collective& collective, int rank, int size, int pieces,
        bool rank_order);

  // True where the own contribution lies in the output, so that receiving there destroys it.
  bool in_place() const { return in_place_; }
  const Operand& own() const { return own_; }               // where the own contribution lies
  const std::vector<Dep>& ready() const { return ready_; }  // and when
  Range all() const { return {fixed(0), schedule_.pieces}; }

  // Each adds a phase and returns its number. `repeat` 0 adds nothing and returns kNoPhase;
  // dependencies on kNoPhase are left out.
  int16_t send(int repeat, Affine peer, Range range, Affine tag, Operand src,
               std::vector<Dep> deps);
  int16_t recv(int repeat, Affine peer, Range range, Affine tag, Operand dst, std::vector<Dep> deps,
               int16_t consumer = kNoPhase);
  // The phase combines what it receives with `src`; `finish` if that is the last combination.
  int16_t recv_reduce(int repeat, Affine peer, Range range, Affine tag, Operand src, Operand dst,
                      bool received_first, bool finish, std::vector<Dep> deps);
  int16_t fold(Range range, int sources, int own, Affine slot, Operand dst, std::vector<Dep> deps);
  int16_t copy(Range range, Operand src, Operand dst, bool finish, std::vector<Dep> deps);

  int16_t next() const { return static_cast<int16_t>(schedule_.phases.size()); }
  void scratch_slots(int slots) { schedule_.scratch_slots = slots; }
  Schedule take() { return std::move(schedule_); }

 private:
  int16_t add(Phase phase);

  Schedule schedule_;
  bool in_place_;
  Operand own_;
  std::vector<Dep> ready_;
};

std::vector<Dep> with(std::vector<Dep> deps, std::initializer_list<Dep> more);

// The only rank of a group: its contribution, finished, is the result.
Schedule make_alone(const char* algorithm, const Collective& collective);

}  // namespace tbccl::algorithms
