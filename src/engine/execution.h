// One schedule being carried out: its steps, what they wait for, what has arrived. Belongs to a
// request; only the holder of the lane's token touches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/program.h"
#include "link/links.h"

namespace tbccl::engine {

// Local work (combining, copying, scaling) between two polls.
inline constexpr uint64_t kSliceBytes = 64 * 1024;

// What an execution needs of the request it belongs to.
struct Site {
  link::Links* links = nullptr;
  const std::vector<int>* peers = nullptr;  // rank of the communicator -> rank of the links
  uint32_t comm = 0;
  uint64_t number = 0;
  uint64_t fingerprint = 0;
  void* owner = nullptr;  // of the messages
  uint64_t turn = 0;      // of the request among all that send
};

struct Step {
  int32_t phase = 0;
  int32_t iteration = 0;
  uint64_t lo = 0, hi = 0;   // vector offsets
  std::byte* src = nullptr;  // where the range begins in the user's buffers, or in its slot
  std::byte* dst = nullptr;
  uint64_t done = 0;  // first byte not done
  uint64_t open = 0;  // up to where it may work: sent, granted, or ready to be computed
  link::Send* send = nullptr;
  link::Recv* recv = nullptr;
  bool posted = false;
  bool complete = false;
  bool released = false;  // sends: the memory is not read any more
  std::vector<std::pair<uint64_t, uint64_t>>
      beyond;  // done, but not contiguous with `done`; sorted
};

class Execution {
 public:
  // Everything in place for the first settle(). Throws where memory lacks; may then be begun anew,
  // and nothing else.
  void begin(const Call& call, uint32_t element, const Site& site);
  // Does all that may be done now, with at most `budget` bytes of local work; false: local work is
  // left. Posts and extends messages.
  bool settle(uint64_t* budget);
  uint64_t scratch_wanted() const { return scratch_wanted_; }  // bytes, by the last begin()
  bool complete() const { return phases_left_ == 0; }
  // After it the links touch no memory of this execution and make no callbacks for it.
  void withdraw();

  // Callbacks of the links. They post nothing; what has arrived is put to its place, or combined.
  std::byte* place(uint32_t step, uint64_t offset, uint32_t length);  // nullptr: to be staged
  void arrived(uint32_t step, uint64_t offset, uint32_t length, const std::byte* data, bool last);
  void released(uint32_t step);

  // Ranks of the communicator that messages in progress wait for; sorted, without repetitions.
  std::vector<int> waiting_for() const;

 private:
  struct PhaseState {
    int32_t first = 0;    // iterations before it are complete, and released
    int32_t entered = 0;  // iterations before it are, or were, in the window
    int32_t started = 0;  // iterations before it have started
    bool marked = false;  // is in marked_
  };
  struct Limit {
    uint64_t offset;  // the step may work below it
    bool all;         // every step it depends on is complete
  };

  Step& step(int p, int32_t i) { return steps_[program_.first_step(p) + i % program_.window(p)]; }
  void mark(int p);
  void advanced(int p);  // a step of phase p did: its dependents are to be looked at
  void enter(int p, int32_t i);
  void retire(int p);
  void evaluate(int p);
  Limit limit_of(const Step& s);
  void narrow(const schedule::Dep& dep, int32_t j, Limit* limit);
  void narrow_all(const schedule::Dep& dep, Limit* limit);
  void act(Step& s, uint64_t limit);
  void send(Step& s, uint64_t limit);
  void receive(Step& s, uint64_t limit);
  uint64_t ring_limit(const Step& s);
  void note_done(Step& s, uint64_t from, uint64_t to);
  link::Key key(const schedule::Phase& phase, int32_t iteration) const;

  bool compute(uint64_t* budget);
  void compute_range(const Step& s, uint64_t from, uint64_t to);
  std::byte* beginning(const schedule::Operand& operand, const schedule::Phase& phase, int32_t i);
  std::byte* source(const Step& s, uint64_t x) const;
  std::byte* target(const Step& s, uint64_t x) const;
  uint64_t within(const schedule::Operand& operand, const Step& s, uint64_t x) const;
  uint64_t to_wrap(const Step& s, uint64_t x) const;  // bytes until a ring slot wraps

  Program program_;
  Site site_;
  reduce::Reduction reduction_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  uint32_t element_ = 1;
  int phases_left_ = 0;
  bool stopped_ = false;
  std::vector<Step> steps_;
  std::vector<PhaseState> states_;
  std::vector<uint16_t> marked_;
  std::vector<const void*> sources_;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> scratch_;
  uint64_t scratch_bytes_ = 0;
  uint64_t scratch_wanted_ = 0;
};

}  // namespace tbccl::engine
