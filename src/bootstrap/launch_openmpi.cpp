// Open MPI's mpirun.

#include "base/formatted.h"
#include "bootstrap/launch.h"

namespace tbccl::bootstrap {

Status read_openmpi(const Lookup& lookup, const Settings& settings, Launch* launch) {
  if (Status s = read_rank_and_size(lookup, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", launch);
      !s.ok()) {
    return s;
  }
  launch->where.address = settings.rendezvous;
  if (launch->size == 1 || !settings.rendezvous.empty()) return {};
  int local = 0;
  if (Status s = read_number(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, launch->size, &local);
      !s.ok()) {
    return s;
  }
  if (local < launch->size) {
    return {tbcclInvalidArgument,
            formatted("OMPI_COMM_WORLD_LOCAL_SIZE={} of OMPI_COMM_WORLD_SIZE={} ranks are on "
                      "this host: between hosts Open MPI's variables name no place to meet; type "
                      "mpirun -n {} -x TBCCL_RENDEZVOUS=HOST:29400 ... with the address of rank "
                      "0's host and a free port there",
                      local, launch->size, launch->size)};
  }
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PRTE_JOBID"}) {
    if (!is_set(lookup, name)) continue;
    launch->post = formatted("openmpi {}", lookup(name));
    return {};
  }
  return {tbcclInvalidArgument,
          formatted("neither PMIX_NAMESPACE nor OMPI_MCA_ess_base_jobid is set, so the job has "
                    "no name; type mpirun -n {} -x TBCCL_RENDEZVOUS=127.0.0.1:29400 ...",
                    launch->size)};
}

}  // namespace tbccl::bootstrap
