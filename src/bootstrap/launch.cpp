#include "bootstrap/launch.h"

#include <atomic>

#include "base/formatted.h"
#include "base/log.h"
#include "base/numbers.h"
#include "bootstrap/address.h"
#include "bootstrap/pmi.h"
#include "bootstrap/timer.h"
#include "bootstrap/unique_id.h"

namespace tbccl::bootstrap {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr uint16_t kFirstDerived = 20000, kLastDerived = 32767;

struct Launcher {
  const char* name;
  bool (*seen)(const Lookup&);
  Status (*read)(const Lookup&, const Settings&, Launch*);
};

bool saw_torchrun(const Lookup& lookup) {
  return is_set(lookup, "RANK") + is_set(lookup, "WORLD_SIZE") + is_set(lookup, "MASTER_ADDR") >= 2;
}
bool saw_openmpi(const Lookup& lookup) {
  return is_set(lookup, "OMPI_COMM_WORLD_RANK") || is_set(lookup, "OMPI_COMM_WORLD_SIZE");
}
bool saw_mpich(const Lookup& lookup) {
  return is_set(lookup, "PMI_FD") || (is_set(lookup, "PMI_RANK") && is_set(lookup, "PMI_SIZE"));
}
bool saw_mlx(const Lookup& lookup) {
  return is_set(lookup, "MLX_RANK") || is_set(lookup, "JACCL_RANK");
}
// A batch script has SLURM_PROCID too, but is no step.
bool saw_slurm(const Lookup& lookup) {
  return is_set(lookup, "SLURM_PROCID") && is_set(lookup, "SLURM_STEP_ID");
}

// Innermost first: torchrun and mpirun are started inside Slurm's allocations, not around them.
constexpr Launcher kLaunchers[] = {
    {"torchrun", saw_torchrun, read_torchrun}, {"mlx", saw_mlx, read_mlx},
    {"openmpi", saw_openmpi, read_openmpi},    {"mpich", saw_mpich, read_mpich},
    {"slurm", saw_slurm, read_slurm},
};

// The one to ask; NULL for none.
Status choose(const Lookup& lookup, const Settings& settings, const Launcher** chosen) {
  *chosen = nullptr;
  if (settings.launcher == "none") return {};
  for (const Launcher& one : kLaunchers) {
    if (!settings.launcher.empty() ? settings.launcher == one.name : one.seen(lookup)) {
      *chosen = &one;
      return {};
    }
  }
  if (settings.launcher.empty()) return {};
  return {tbcclInvalidArgument,
          formatted("TBCCL_LAUNCHER={} names no launcher: give torchrun, openmpi, mpich, slurm, "
                    "mlx or none",
                    settings.launcher)};
}

Status read_own(const Settings& settings, Launch* launch) {
  if (settings.rank < 0 || settings.size < 1 ||
      (settings.size > 1 && settings.rendezvous.empty())) {
    return {tbcclInvalidUsage,
            "TBCCL_RANK, TBCCL_SIZE and TBCCL_RENDEZVOUS=host:port are all needed "
            "(or none of them, for a group of one, or under a launcher)"};
  }
  launch->launcher = "TBCCL_RANK";
  launch->rank = settings.rank;
  launch->size = settings.size;
  launch->where.address = settings.rendezvous;
  return {};
}

// Ranks make their communicators in the same order; each has its own file and keys.
unsigned next_number() {
  static std::atomic<unsigned> number{0};
  return number.fetch_add(1);
}

Status carry_by_file(const std::string& path, const Settings& settings, Launch* launch) {
  if (launch->rank != 0) {
    return Post::read(path, after(settings.connect_timeout_ns), &launch->where.id);
  }
  if (Status s = make_unique_id(settings, &launch->where.id); !s.ok()) return s;
  return Post::write(path, launch->where.id, &launch->held);
}

}  // namespace

bool is_set(const Lookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value != nullptr && *value != '\0';
}

Status read_number(const Lookup& lookup, const char* name, int smallest, int largest, int* value) {
  if (!is_set(lookup, name)) {
    return {tbcclInvalidArgument,
            formatted("{} is not set, but other variables of its launcher are; set it, or choose "
                      "with TBCCL_LAUNCHER (none: start alone)",
                      name)};
  }
  const std::string_view text = lookup(name);
  const auto number = text.find('.') == std::string_view::npos
                          ? parse_decimal(text, 1, static_cast<uint64_t>(largest))
                          : std::nullopt;
  if (!number || *number < static_cast<uint64_t>(smallest)) {
    return {tbcclInvalidArgument,
            formatted("{}={} is not a whole number from {} to {}", name, text, smallest, largest)};
  }
  *value = static_cast<int>(*number);
  return {};
}

Status read_rank_and_size(const Lookup& lookup, const char* rank, const char* size,
                          Launch* launch) {
  if (Status s = read_number(lookup, size, 1, kMostRanks, &launch->size); !s.ok()) return s;
  if (Status s = read_number(lookup, rank, 0, kMostRanks - 1, &launch->rank); !s.ok()) return s;
  if (launch->rank < launch->size) return {};
  return {tbcclInvalidArgument, formatted("{}={} does not fit {}={}: ranks count from 0", rank,
                                          launch->rank, size, launch->size)};
}

Status derived_address(const std::string& host, const std::string& key, uint16_t taken,
                       const Settings& settings, Launch* launch) {
  PortRange range;
  if (Status s = parse_port_range(settings.port_range, &range); !s.ok()) return s;
  const bool given = range.first != 0;
  if (!given) range = {kFirstDerived, kLastDerived};
  const uint64_t count = uint64_t{range.last} - range.first + 1;
  // Ranks of this host listen at the first free ports of a given range, before rank 0 gets here.
  const uint64_t spared = given ? count / 2 : 0;
  uint64_t offset = spared + host_hash(key) % (count - spared);
  if (range.first + offset == taken) offset = (offset + 1) % count;
  if (range.first + offset == taken) {
    return {tbcclInvalidArgument, formatted("TBCCL_PORT_RANGE={} has only port {}, which belongs "
                                            "to the launcher; give a wider range",
                                            settings.port_range, taken)};
  }
  const bool bare_v6 = host.find(':') != std::string::npos && host.front() != '[';
  launch->derived = true;
  launch->where.address =
      formatted("{}{}{}:{}", bare_v6 ? "[" : "", host, bare_v6 ? "]" : "", range.first + offset);
  return {};
}

Status read_launch(const Lookup& lookup, const Settings& settings, Launch* launch) {
  if (settings.rank >= 0 || settings.size >= 0) return read_own(settings, launch);
  const Launcher* chosen = nullptr;
  if (Status s = choose(lookup, settings, &chosen); !s.ok()) return s;
  if (chosen == nullptr) {
    if (!settings.rendezvous.empty()) return read_own(settings, launch);
    launch->launcher = "nobody";
    return {};
  }
  launch->launcher = chosen->name;
  return chosen->read(lookup, settings, launch);
}

Status prepare_launch(const Lookup& lookup, const Settings& settings, Launch* launch) {
  log::info("tbcclCommInitEnv: rank {} of {}, started by {}{}{}", launch->rank, launch->size,
            launch->launcher, launch->where.address.empty() ? "" : ", meeting at ",
            launch->where.address);
  const unsigned number = next_number();
  if (launch->size == 1 || (launch->post.empty() && !launch->pmi)) return {};
  launch->where.kind = MeetingPoint::Kind::kUniqueId;
  if (launch->pmi) return carry_by_pmi(lookup, settings, number, launch);
  std::string path;
  if (Status s = Post::path(lookup("TMPDIR"), formatted("{}.{}", launch->post, number), &path);
      !s.ok()) {
    return s;
  }
  return carry_by_file(path, settings, launch);
}

Status explain_meeting(const Launch& launch, const Status& status) {
  if (status.ok() || !launch.derived) return status;
  return {status.code(),
          formatted("{} (tbccl derived {} from the variables that {} set: if another program uses "
                    "that port, set TBCCL_RENDEZVOUS=host:port, the same for all ranks)",
                    status.text(), launch.where.address, launch.launcher)};
}

}  // namespace tbccl::bootstrap
