// What a simulated segment occupies: processors of ranks and hosts, and directed links.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "schedule/basis.h"

namespace tbccl::schedule {

class Resources {
 public:
  explicit Resources(const Basis& basis);

  // One rank's processor for `ns` from `from` on, when it is free. Returns the end.
  double compute(int32_t rank, double from, double ns);
  // The link between two ranks for `bytes`; the sender's processor works on them until `sent`,
  // having begun at `from`. Returns when the last byte is at the peer.
  double carry(int32_t from_rank, int32_t to_rank, double from, double sent, double bytes);

 private:
  struct Link {
    double rate, delay;
    double* out_busy;  // until when, at the sender's side
    double* in_busy;   // at the receiver's side; only networks have one of its own
  };
  Link link(int32_t from, int32_t to);

  const Basis& basis_;
  std::vector<double> rank_busy_;
  std::vector<int32_t> host_;                   // dense numbers
  std::vector<std::vector<double>> core_busy_;  // of each host
  std::vector<double> network_out_, network_in_;
  std::unordered_map<uint64_t, double> pair_busy_;
};

}  // namespace tbccl::schedule
