// What all ranks do, step by step, drawn from a seed: each rank draws the whole plan by itself, and
// makes its part of it.
#pragma once

#include <vector>

#include "call.h"

namespace soak {

// A communicator: number 0 is that of all ranks, the others were split from an older one.
struct Slot {
  bool alive = false;
  std::vector<int> members;  // ranks of the world, in order

  int size() const { return static_cast<int>(members.size()); }
  int rank_of(int world_rank) const;  // -1: is no member
};

enum class Action {
  kBlocking,  // calls one after the other
  kBatch,     // calls with requests, each communicator's in order
  kGroup,     // between group start and end; `requests`: with requests
  kThreads,   // blocking calls, a thread for each communicator
  kMake,      // a persistent request for each call
  kStart,     // persistent requests are started; `group`: in one
  kFree,      // a persistent request is freed
  kSplit,
  kDestroy,
  kDrain  // waits for everything
};

struct Step {
  Action action = Action::kDrain;
  std::vector<Call> calls;
  bool requests = false, group = false;
  std::vector<size_t> persistent;  // kMake: their numbers; kStart, kFree: which
  uint64_t seed = 0;               // of new data
  int slot = 0;                    // kSplit, kDestroy
  std::vector<int> colors, keys;   // kSplit, of the slot's ranks
  std::vector<int> made;           // kSplit: the slot of each colour, or -1
  bool duplicate = false;          // kSplit: tbcclCommDup
};

class Plan {
 public:
  Plan(uint64_t seed, int ranks);

  Step next();
  const Slot& slot(int number) const { return slots_[static_cast<size_t>(number)]; }
  int slots() const { return static_cast<int>(slots_.size()); }

 private:
  Call draw_call(int slot);
  Call draw_message(int slot);
  void draw_reduction(Call& call);
  uint64_t draw_count();
  int draw_slot();
  std::vector<int> living() const;
  void draw_many(Step& step, int most);
  void draw_crowd(Step& step);
  void draw_burst(Step& step);
  void draw_split(Step& step);
  void draw_destroy(Step& step);
  void draw_persistent(Step& step);
  std::vector<size_t> persistent_alive() const;

  Draw draw_;
  std::vector<Slot> slots_;
  std::vector<Call> persistent_;  // by number
  std::vector<bool> persistent_alive_;
  int tag_ = 0;
};

}  // namespace soak
