#include "explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/settings.h"
#include "collective.h"
#include "schedule/basis.h"
#include "selection/selection.h"
#include "sweep.h"
#include "topology/cabling.h"
#include "topology/host.h"

namespace tbccl::perf {
namespace {

// The job that would run: -g ranks on this host, or as many as TBCCL_SIZE says; with a cabling
// file every rank is a host of its own.
Status describe_job(const Options& options, schedule::Basis* basis) {
  Settings settings;
  if (Status status = Settings::from_environment(&settings); !status.ok()) return status;
  basis->size = options.local_ranks > 0 ? options.local_ranks : std::max(settings.size, 1);
  basis->deterministic = settings.deterministic;
  basis->algorithms = settings.algorithms;
  basis->cores = topology::usable_cores();
  basis->host.assign(static_cast<size_t>(basis->size), 0);
  if (settings.cabling.empty()) return {};
  std::vector<topology::CableSpec> cables;
  Status status = topology::read_cabling(settings.cabling, basis->size, &cables);
  if (!status.ok()) return status;
  for (const topology::CableSpec& cable : cables) {
    basis->cables.push_back({cable.a.rank, cable.b.rank, cable.rate});
  }
  for (int rank = 0; rank < basis->size; ++rank) basis->host[static_cast<size_t>(rank)] = rank;
  return {};
}

}  // namespace

int explain(const Options& options) {
  if (options.collective == kSendRecv.name) {
    fmt::print("sendrecv has no algorithms: a message goes over the link between its two ranks\n");
    return 0;
  }
  schedule::Basis basis;
  if (Status status = describe_job(options, &basis); !status.ok()) {
    fmt::print(stderr, "tbccl-perf: {}\n", status.text());
    return kExitError;
  }
  selection::Question question;
  const CollectiveTest& collective = find_collective(options.collective);
  question.collective.operation = collective.operation;
  question.collective.root = std::max(options.root, 0);
  question.element = static_cast<uint32_t>(options.types.front().bytes);
  question.collective.scale = collective.reduces && options.operators.front().op == Op::kMulSum;
  for (uint64_t bytes : options.sizes()) {
    question.count = collective.counts(bytes, question.element, basis.size).elements;
    fmt::print("# {} {} bytes, {} ranks\n{}\n", options.collective, bytes, basis.size,
               selection::explain(question, basis));
  }
  return 0;
}

}  // namespace tbccl::perf
