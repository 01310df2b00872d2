// MPICH's mpiexec (Hydra), and other launchers that speak PMI-1.
#include "bootstrap/launch.h"

namespace tbccl::bootstrap {

Status read_mpich(const Lookup& lookup, const Settings& settings, Launch* launch) {
  if (Status s = read_rank_and_size(lookup, "PMI_RANK", "PMI_SIZE", launch); !s.ok()) return s;
  launch->where.address = settings.rendezvous;
  if (launch->size == 1 || !settings.rendezvous.empty()) return {};
  int file = -1;
  if (Status s = read_number(lookup, "PMI_FD", 0, 1 << 20, &file); !s.ok()) return s;
  launch->pmi = true;
  return {};
}

}  // namespace tbccl::bootstrap
