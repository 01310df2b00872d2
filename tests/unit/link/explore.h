// The explorer: runs a small scenario over two trunks again and again, and each time lets the
// environment choose differently: what is delivered next and how far, what is lost, doubled,
// overtaken, cut or stalled, when timers fire, when either side takes its next step.
//
// A run has a default course (deliver what is there, in order; then the next step of a side;
// then the next timer). Every other choice costs one from a budget; all runs within the budget
// are made, depth first, each from the start: a run is the list of its choices. With a `share`
// above 1 only every so many-th run that spends two or more is made (which ones follows from the
// choices alone); TBCCL_TESTS_EXPLORE=2 makes all of them, =3 also those that spend three.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness.h"

namespace tbccl::link::testing {

struct Step {
  int side = 0;
  std::function<bool()> ready;  // may it be taken now
  std::function<void()> act;
};

// One run's world: made new for every run.
struct World {
  std::unique_ptr<Pair> pair;
  std::vector<Step> steps[2];            // what each side does, in order
  std::function<bool()> complete;        // all that was wanted has come about
  std::function<std::string()> verdict;  // at the end: "" or what is wrong
};

struct Scenario {
  tbccl::testing::MemoryOptions memory;
  Options options;
  std::function<void(World&)> prepare;  // fills steps, complete, verdict
};

struct Explored {
  uint64_t runs = 0;
  uint64_t states = 0;  // choices made in all runs
  std::string problem;  // the first, with the choices that lead to it
};

Explored explore(const Scenario& scenario, int budget, uint32_t share);

// TBCCL_TESTS_EXPLORE, 0 if it is not set.
int explore_budget();

}  // namespace tbccl::link::testing
