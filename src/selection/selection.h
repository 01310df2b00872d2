// The choice of an algorithm: the only place that chooses.
//
// Everything here is a pure function of its arguments, so equal on all ranks; nothing depends on
// in_place, which may differ between them. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "schedule/basis.h"
#include "schedule/schedule.h"

namespace tbccl::selection {

struct Question {
  schedule::Collective collective;
  uint64_t count = 0;             // as the operation's caller gives it: elements of one block
  uint32_t element = 1;           // bytes
  bool needs_rank_order = false;  // the operator does not commute
};

struct Candidate {
  std::string algorithm;
  double predicted_ns = 0;
  int steps = 0;
  bool eligible = false;
  std::string reason;  // why not eligible; empty otherwise
};

struct Choice {
  std::string algorithm;
  std::vector<Candidate> candidates;  // all that serve the operation, in order of preference
};

// The eligible candidate that Basis::preferences names for this size; otherwise the one with the
// least predicted time, of equal ones the first. Where cables are given, one whose messages all
// have a cable comes before all others. InvalidArgument if Basis::algorithms leaves none or cannot
// be read; `choice` then still holds the candidates. A few microseconds where rank order is a good
// ring; cache the result all the same.
Status choose(const Question& question, const schedule::Basis& basis, Choice* choice);

// The schedule of one rank by an algorithm that choose() named. A name that does not exist gives a
// schedule of no ranks (size 0).
schedule::Schedule make(const std::string& algorithm, const schedule::Collective& collective,
                        int rank, const schedule::Basis& basis);

// Checks TBCCL_ALGO's grammar: sections separated by ';', each `[operation:][^]name,name,...`, as
// NCCL has it, where a name may be followed by the sizes it is for, in bytes of the vector, both
// ends included: `allreduce:ring@1M-,direct@-4K;broadcast:tree`. At sizes that a section says
// nothing of, the choice is free. A section without an operation speaks for every operation that
// one of its names serves; '^' excludes the names; of several sections for one operation the last
// counts. InvalidArgument says what is wrong and which names are possible. Empty: no restriction.
Status check_overrides(const std::string& grammar);

// The candidates, their predicted times, the choice and why, as text of several lines.
std::string explain(const Question& question, const schedule::Basis& basis);

std::vector<std::string> names(tbcclOperation_t operation);

}  // namespace tbccl::selection
