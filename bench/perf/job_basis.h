// What predictions are made of: the basis of a job that would run here, or of a topology.
#pragma once

#include <string>

#include "base/status.h"
#include "options.h"
#include "schedule/basis.h"

namespace tbccl::perf {

// The job that would run: -g ranks on this host, or as many as TBCCL_SIZE says; with a cabling file
// every rank is a host of its own. TBCCL_ALGO, TBCCL_DETERMINISTIC and TBCCL_TUNING count.
Status describe_job(const Options& options, schedule::Basis* basis);

// A sketch ("ring:8,k=2", see topology/sketch.h) or the path of a cabling file; TBCCL_ALGO,
// TBCCL_DETERMINISTIC and TBCCL_TUNING count here too. Costs are the table's for TCP and cables.
Status describe_topology(const std::string& topology, schedule::Basis* basis);

}  // namespace tbccl::perf
