// What a simulated segment occupies: processors of ranks and hosts, and directed links.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "schedule/basis.h"
#include "schedule/fold.h"

namespace tbccl::schedule {

// Actors are numbered as in Fold::ranks.
class Resources {
 public:
  Resources(const Basis& basis, const Fold& actors);

  // One actor's processor for `ns` from `from` on, when it is free; likewise for those of its host
  // that it stands for. Returns the end.
  double compute(int32_t actor, double from, double ns);
  // The link from an actor to a rank for `bytes`; `to` is the actor that stands for that rank. The
  // sender's processor works on them until `sent`, having begun at `from`. Returns when the last
  // byte is at the peer.
  double carry(int32_t actor, int32_t to_rank, int32_t to, double from, double sent, double bytes);

 private:
  struct Link {
    double rate = 0, delay = 0;
    bool network = false;
    double busy = 0;  // until when; networks have a side of their own at each end instead
  };
  Link& link(int32_t actor, int32_t to_rank);

  const Basis& basis_;
  const Fold& actors_;
  std::vector<double> actor_busy_;
  std::vector<std::vector<double>> core_busy_;  // of each host
  std::vector<double> network_out_, network_in_;
  std::unordered_map<uint64_t, Link> links_;
};

}  // namespace tbccl::schedule
