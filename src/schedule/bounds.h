// What no algorithm can beat: lower bounds on the time of a collective over the links of a basis.
//
// Every bound counts bytes that must cross the border of some set of ranks, over the rate at which
// they can. d(A) is the rate out of set A: its cables to others and its channels within hosts, and,
// where no cabling is given, one network for each of its ranks. S: bytes of the vector.
//
//   broadcast, reduce      S / least max-flow from the root to a rank        (Edmonds: attained)
//   all-gather,            max over A of |A| S / n / d(A)                    (attained)
//   reduce-scatter
//   all-reduce             max over partitions of 2 (parts - 1) S / sum of d(part)
//                          (Tutte and Nash-Williams: attained, by packed spanning trees)
//   gather, scatter        (n - 1) / n S over the rates of the root, and by cuts
//   all-to-all             max over A of |A| (n - |A|) S / n / d(A), over some A
//
// Attained means: by a packing of trees, with cables or channels; a network is bounded by its ends.
// Added is the least alpha of any link. Processors are not counted. Above kExactRanks ranks only
// single ranks, hosts and runs of consecutive ranks are looked at: still true, perhaps not tight.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schedule/basis.h"

namespace tbccl::schedule {

inline constexpr int32_t kExactRanks = 64;

struct Bound {
  bool known = false;
  bool exact = false;      // the best of its kind of bounds
  double ns_per_byte = 0;  // of the vector
  double alpha = 0;        // ns
  std::string why;         // what limits
  double ns(uint64_t bytes) const { return alpha + ns_per_byte * static_cast<double>(bytes); }
};

// `operation`: "allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall",
// "gather", "scatter"; of others nothing is known.
Bound lower_bound(std::string_view operation, int32_t root, const Basis& basis);

}  // namespace tbccl::schedule
