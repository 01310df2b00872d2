// srun: one step of a Slurm job.

#include "base/formatted.h"
#include "bootstrap/launch.h"
#include "bootstrap/nodelist.h"

namespace tbccl::bootstrap {
namespace {

// The step's own variable, or the job's.
const char* either(const Lookup& lookup, const char* step, const char* job) {
  return is_set(lookup, step) ? step : job;
}

}  // namespace

Status read_slurm(const Lookup& lookup, const Settings& settings, Launch* launch) {
  const char* size = either(lookup, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
  if (Status s = read_rank_and_size(lookup, "SLURM_PROCID", size, launch); !s.ok()) return s;
  launch->where.address = settings.rendezvous;
  if (launch->size == 1 || !settings.rendezvous.empty()) return {};
  const char* job = either(lookup, "SLURM_JOB_ID", "SLURM_JOBID");
  const char* step = either(lookup, "SLURM_STEP_ID", "SLURM_STEPID");
  const char* nodes =
      either(lookup, "SLURM_STEP_NODELIST", either(lookup, "SLURM_JOB_NODELIST", "SLURM_NODELIST"));
  for (const char* name : {job, step, nodes}) {
    if (is_set(lookup, name)) continue;
    return {tbcclInvalidArgument,
            formatted("SLURM_PROCID={} is set, {} is not: start the program with srun, or set "
                      "TBCCL_RENDEZVOUS=host:port",
                      launch->rank, name)};
  }
  std::string first;
  if (!first_host(lookup(nodes), &first)) {
    return {tbcclInvalidArgument, formatted("{}={:.200} is not a list of hosts (node[1-4,7],other)",
                                            nodes, lookup(nodes))};
  }
  return derived_address(first, formatted("slurm {} {}", lookup(job), lookup(step)), 0, settings,
                         launch);
}

}  // namespace tbccl::bootstrap
