// The tiny path: blocking calls of at most 256 bytes while nothing else is outstanding on the lane.
//
// A plan whose vector is one piece is flattened once, to a list of steps with a bit mask of what
// each waits for. Such a call takes its number, posts what may go, and works through the list as
// messages arrive: no pooled request, no inbox, no phases, windows or watermarks. On the wire it is
// the same as any other call: a peer whose call came by another way does not notice.
//
// Everything else is the engine's: the call is its channel's own Request among the active ones, so
// deadline, abort, fingerprint, call records and the failure of peers need no code here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "link/links.h"
#include "reduce/reduce.h"
#include "schedule/schedule.h"

namespace tbccl::engine {

struct Call;
struct Site;

inline constexpr uint64_t kTinyBytes = 256;
inline constexpr int kTinySteps = 32;
inline constexpr int kTinySlots = 8;

struct TinyStep {
  schedule::Kind kind = schedule::Kind::kSend;
  int32_t peer = 0;
  uint32_t tag = 0;
  schedule::Buffer src = schedule::Buffer::kInput;
  schedule::Buffer dst = schedule::Buffer::kInput;
  uint8_t src_slot = 0, dst_slot = 0;
  bool received_first = true, finish = false;
  uint8_t sources = 0;
  int8_t own = -1;                               // kFold: the contribution in src, -1: none
  std::array<uint8_t, kTinySlots> fold_slots{};  // kFold: of the other contributions, in order
  uint32_t needs = 0;                            // steps that must be done before
};

struct TinyProgram {
  std::vector<TinyStep> steps;
  // nullptr: the schedule has several pieces, too many steps or too many scratch slots.
  static std::unique_ptr<const TinyProgram> flatten(const schedule::Schedule& schedule);
};

// One such call being carried out; only the holder of the lane's token touches it. A send is done
// when it is released. Callbacks of the links post nothing, as in Execution.
class Tiny {
 public:
  void begin(const TinyProgram& program, const Call& call, uint32_t element, const Site& site);
  // Posts and computes all that may be; true: everything is done.
  bool settle();
  void withdraw();

  std::byte* place(uint32_t step, uint64_t offset);  // nullptr: to be staged
  void arrived(uint32_t step, uint64_t offset, uint32_t length, const std::byte* data, bool last);
  void released(uint32_t step);
  std::vector<int> waiting_for() const;

 private:
  void start(uint32_t index);
  void compute(const TinyStep& step);
  std::byte* address(schedule::Buffer buffer, uint8_t slot);

  const TinyProgram* program_ = nullptr;
  link::Links* links_ = nullptr;
  const std::vector<int>* peers_ = nullptr;
  link::Key key_;
  uint64_t fingerprint_ = 0;
  void* owner_ = nullptr;
  const reduce::Reduction* reduction_ = nullptr;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  uint32_t element_ = 1;
  uint64_t bytes_ = 0;
  uint32_t started_ = 0, done_ = 0;  // bits of steps
  std::array<link::Send*, kTinySteps> sends_{};
  std::array<link::Recv*, kTinySteps> recvs_{};
  alignas(64) std::array<std::byte, kTinySlots * kTinyBytes> scratch_;
};

}  // namespace tbccl::engine
