#include "schedule/resources.h"

#include <algorithm>
#include <map>

namespace tbccl::schedule {

Resources::Resources(const Basis& basis)
    : basis_(basis),
      rank_busy_(static_cast<size_t>(basis.size), 0),
      network_out_(static_cast<size_t>(basis.size), 0),
      network_in_(static_cast<size_t>(basis.size), 0) {
  std::map<int32_t, int32_t> numbers;
  for (int32_t rank = 0; rank < basis.size; rank++) {
    const auto r = static_cast<size_t>(rank);
    // A rank without an entry is alone on its host.
    const int32_t name = r < basis.host.size() ? basis.host[r] : INT32_MIN + rank;
    host_.push_back(numbers.try_emplace(name, static_cast<int32_t>(numbers.size())).first->second);
  }
  core_busy_.assign(numbers.size(),
                    std::vector<double>(static_cast<size_t>(std::max(1, basis.cores)), 0));
}

double Resources::compute(int32_t rank, double from, double ns) {
  auto& cores = core_busy_[static_cast<size_t>(host_[static_cast<size_t>(rank)])];
  double& mine = rank_busy_[static_cast<size_t>(rank)];
  double& core = *std::min_element(cores.begin(), cores.end());
  // A core is charged for work, not for the time a rank makes it wait.
  mine = std::max({from, mine, core}) + ns;
  core = std::max(core, from) + ns;
  return mine;
}

Resources::Link Resources::link(int32_t from, int32_t to) {
  const double delay = std::max(0.0, basis_.alpha(from, to) - 2 * basis_.cpu_message);
  const double rate = basis_.rate(from, to);
  if (basis_.medium(from, to) == Medium::kNetwork)
    return {rate, delay, &network_out_[static_cast<size_t>(from)],
            &network_in_[static_cast<size_t>(to)]};
  const uint64_t pair = uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
  double& busy = pair_busy_[pair];
  return {rate, delay, &busy, nullptr};
}

double Resources::carry(int32_t from_rank, int32_t to_rank, double from, double sent,
                        double bytes) {
  const Link l = link(from_rank, to_rank);
  const double wire = bytes / l.rate;
  double start = std::max(from, *l.out_busy);
  *l.out_busy = start + wire;
  if (l.in_busy != nullptr) {
    start = std::max(start, *l.in_busy);
    *l.in_busy = start + wire;
  }
  // The processor feeds the link while it works, so the later of the two ends counts.
  return std::max(start + wire, sent) + l.delay;
}

}  // namespace tbccl::schedule
