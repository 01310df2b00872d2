#include "job_basis.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/formatted.h"
#include "base/settings.h"
#include "selection/tuning.h"
#include "topology/cabling.h"
#include "topology/host.h"
#include "topology/sketch.h"

namespace tbccl::perf {
namespace {

constexpr int kMostRanks = 1 << 20;  // that a cabling file may name

// Overrides and costs, once the rest of the basis is known.
Status finish(const Settings& settings, schedule::Basis* basis) {
  basis->deterministic = settings.deterministic;
  basis->algorithms = settings.algorithms;
  basis->index_cables();
  if (settings.tuning.empty()) return {};
  std::ifstream file(settings.tuning, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return {tbcclInvalidArgument, formatted("TBCCL_TUNING: cannot read {}", settings.tuning)};
  }
  return selection::apply_tuning(text.str(), settings.tuning, basis);
}

void add_cables(const std::vector<topology::CableSpec>& cables, schedule::Basis* basis) {
  for (const topology::CableSpec& cable : cables)
    basis->cables.push_back({cable.a.rank, cable.b.rank, cable.rate});
  for (int rank = 0; rank < basis->size; ++rank) basis->host[static_cast<size_t>(rank)] = rank;
}

// "tcp,shm" or "^shm", as TBCCL_TRANSPORT has it.
bool shares_memory(const std::string& transports) {
  const bool exclude = transports.starts_with('^');
  return transports.empty() || (transports.find("shm") != std::string::npos) != exclude;
}

Status read_cabling(const std::string& path, schedule::Basis* basis) {
  std::vector<topology::CableSpec> cables;
  if (Status status = topology::read_cabling(path, kMostRanks, &cables); !status.ok())
    return status;
  for (const topology::CableSpec& cable : cables)
    basis->size = std::max({basis->size, cable.a.rank + 1, cable.b.rank + 1});
  basis->host.resize(static_cast<size_t>(basis->size));
  add_cables(cables, basis);
  return {};
}

}  // namespace

Status describe_job(const Options& options, schedule::Basis* basis) {
  Settings settings;
  if (Status status = Settings::from_environment(&settings); !status.ok()) return status;
  basis->size = options.local_ranks > 0 ? options.local_ranks : std::max(settings.size, 1);
  basis->cores = topology::usable_cores();
  basis->host.assign(static_cast<size_t>(basis->size), 0);
  if (!settings.cabling.empty()) {
    std::vector<topology::CableSpec> cables;
    Status status = topology::read_cabling(settings.cabling, basis->size, &cables);
    if (!status.ok()) return status;
    add_cables(cables, basis);
  } else if (basis->size > 1 && shares_memory(settings.transports)) {
    basis->use_shared_memory(true);
  }
  return finish(settings, basis);
}

Status describe_topology(const std::string& topology, schedule::Basis* basis) {
  Settings settings;
  if (Status status = Settings::from_environment(&settings); !status.ok()) return status;
  if (std::ifstream(topology).good()) {
    if (Status status = read_cabling(topology, basis); !status.ok()) return status;
    return finish(settings, basis);
  }
  topology::Sketch sketch;
  if (Status status = topology::parse_sketch(topology, &sketch); !status.ok()) {
    return {status.code(), status.text() + ", or the path of a cabling file"};
  }
  basis->size = sketch.ranks;
  basis->cores = std::max(1, sketch.cores);
  basis->host.assign(sketch.host.begin(), sketch.host.end());
  for (const topology::Sketch::Join& join : sketch.cables)
    basis->cables.push_back({join.a, join.b, sketch.rate});
  if (Status status = finish(settings, basis); !status.ok()) return status;
  const bool one_host = std::count(sketch.host.begin(), sketch.host.end(), 0) == sketch.ranks;
  schedule::LinkCost& cost = !basis->cables.empty() ? basis->cable
                             : one_host             ? basis->local
                                                    : basis->network;
  if (sketch.rate > 0 && basis->cables.empty()) cost.rate = sketch.rate;
  if (sketch.alpha_ns >= 0) cost.alpha = sketch.alpha_ns;
  return {};
}

}  // namespace tbccl::perf
