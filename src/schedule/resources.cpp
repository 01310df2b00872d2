#include "schedule/resources.h"

#include <algorithm>

namespace tbccl::schedule {

Resources::Resources(const Basis& basis, const Fold& actors)
    : basis_(basis),
      actors_(actors),
      actor_busy_(actors.ranks.size(), 0),
      network_out_(actors.ranks.size(), 0),
      network_in_(actors.ranks.size(), 0) {
  const int32_t hosts =
      actors.host.empty() ? 0 : 1 + *std::max_element(actors.host.begin(), actors.host.end());
  core_busy_.assign(static_cast<size_t>(hosts),
                    std::vector<double>(static_cast<size_t>(std::max(1, basis.cores)), 0));
}

double Resources::compute(int32_t actor, double from, double ns) {
  const auto a = static_cast<size_t>(actor);
  auto& cores = core_busy_[static_cast<size_t>(actors_.host[a])];
  double& mine = actor_busy_[a];
  // Whole rounds over all cores, for those that cannot all have a core of their own.
  const auto count = static_cast<int32_t>(cores.size());
  const int32_t rounds = (actors_.together[a] - 1) / count;
  if (rounds > 0)
    for (double& core : cores) core = std::max(core, from) + rounds * ns;
  double end = 0;
  for (int32_t k = actors_.together[a] - rounds * count; k > 0; k--) {
    double& core = *std::min_element(cores.begin(), cores.end());
    // A core is charged for work, not for the time a rank makes it wait.
    end = std::max({from, mine, core}) + ns;
    core = std::max(core, from) + ns;
  }
  mine = end;
  return mine;
}

Resources::Link& Resources::link(int32_t actor, int32_t to) {
  const auto [at, fresh] =
      links_.try_emplace(uint64_t{static_cast<uint32_t>(actor)} << 32 | static_cast<uint32_t>(to));
  Link& l = at->second;
  if (!fresh) return l;
  const int32_t from = actors_.ranks[static_cast<size_t>(actor)];
  l.rate = basis_.rate(from, to);
  l.delay = std::max(0.0, basis_.alpha(from, to) - 2 * basis_.cpu_message);
  l.network = basis_.medium(from, to) == Medium::kNetwork;
  return l;
}

double Resources::carry(int32_t actor, int32_t to_rank, int32_t to, double from, double sent,
                        double bytes) {
  Link& l = link(actor, to_rank);
  const double wire = bytes / l.rate;
  double& out_busy = l.network ? network_out_[static_cast<size_t>(actor)] : l.busy;
  double start = std::max(from, out_busy);
  out_busy = start + wire;
  if (l.network) {
    double& in_busy = network_in_[static_cast<size_t>(to)];
    start = std::max(start, in_busy);
    in_busy = start + wire;
  }
  // The processor feeds the link while it works, so the later of the two ends counts.
  return std::max(start + wire, sent) + l.delay;
}

}  // namespace tbccl::schedule
