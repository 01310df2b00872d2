// What trunks carry, against what the basis says they do. Choices between algorithms are made by
// the basis; where it is far from what is seen, somebody should know.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "link/links.h"
#include "schedule/basis.h"

namespace tbccl::comm {

// What there is to say of one trunk.
struct RateRemark {
  bool stated = false;  // the cabling file gives the rate; otherwise it is the table's guess
  std::string text;
};

class RateWatch {
 public:
  // A rate counts once it was measured over so many bytes, and is remarked upon beyond this ratio.
  static constexpr uint64_t kEnoughBytes = 16u << 20;
  static constexpr double kRatio = 2;

  RateWatch(const schedule::Basis& basis, int rank) : basis_(basis), rank_(rank) {}

  // What is new: each trunk is remarked upon once. Trunks whose number is a cable's are that cable.
  std::vector<RateRemark> remarks(const std::vector<link::TrunkCounters>& trunks);
  // Says it: stated rates as warnings, guesses for information.
  void look(const std::vector<link::TrunkCounters>& trunks);

 private:
  const schedule::Basis basis_;
  const int rank_;
  std::set<std::pair<int, uint32_t>> told_;  // peer, trunk
};

}  // namespace tbccl::comm
