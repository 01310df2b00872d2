// torchrun, and everything that sets PyTorch's variables.

#include "base/formatted.h"
#include "bootstrap/launch.h"

namespace tbccl::bootstrap {

Status read_torchrun(const Lookup& lookup, const Settings& settings, Launch* launch) {
  if (Status s = read_rank_and_size(lookup, "RANK", "WORLD_SIZE", launch); !s.ok()) return s;
  launch->where.address = settings.rendezvous;
  if (launch->size == 1 || !settings.rendezvous.empty()) return {};
  if (!is_set(lookup, "MASTER_ADDR")) {
    return {tbcclInvalidArgument,
            formatted("RANK={} and WORLD_SIZE={} are set, MASTER_ADDR is not: set it to the host "
                      "of rank 0, or TBCCL_RENDEZVOUS to host:port",
                      launch->rank, launch->size)};
  }
  int port = 0;
  if (Status s = read_number(lookup, "MASTER_PORT", 1, 65535, &port); !s.ok()) return s;
  const char* run = lookup("TORCHELASTIC_RUN_ID");
  const char* restart = lookup("TORCHELASTIC_RESTART_COUNT");
  const std::string host = lookup("MASTER_ADDR");
  const std::string key = formatted("torchrun {} {} {}", port, run == nullptr ? "" : run,
                                    restart == nullptr ? "" : restart);
  int local = 0;
  if (is_set(lookup, "LOCAL_WORLD_SIZE")) {
    if (Status s = read_number(lookup, "LOCAL_WORLD_SIZE", 1, 1 << 20, &local); !s.ok()) return s;
    if (local > launch->size) {
      return {tbcclInvalidArgument,
              formatted("LOCAL_WORLD_SIZE={} is above WORLD_SIZE={}", local, launch->size)};
    }
  }
  if (local == launch->size) {
    launch->post = key;
    return {};
  }
  // The port belongs to torchrun's store.
  return derived_address(host, key, static_cast<uint16_t>(port), settings, launch);
}

}  // namespace tbccl::bootstrap
