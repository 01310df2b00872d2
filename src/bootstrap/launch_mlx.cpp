// mlx.launch: a ring's list of hosts, or JACCL's devices and coordinator.

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/formatted.h"
#include "bootstrap/address.h"
#include "bootstrap/launch.h"

namespace tbccl::bootstrap {
namespace {

// The variable that is set: JACCL's own name wins, as in JACCL.
const char* name_of(const Lookup& lookup, const char* jaccl, const char* mlx) {
  return is_set(lookup, jaccl) ? jaccl : mlx;
}

// A file that holds one list entry a rank.
Status read_list(const Lookup& lookup, const char* name, nlohmann::json* list) {
  std::ifstream file(lookup(name));
  *list = nlohmann::json::parse(file, nullptr, false);
  if (list->is_array() && !list->empty() && list->size() <= (1 << 20)) return {};
  return {tbcclInvalidArgument,
          formatted("{}={} is not a readable JSON file with one list entry a rank", name,
                    lookup(name))};
}

// "address:port" of rank 0 from the ring's file: the first of its addresses.
bool first_address(const nlohmann::json& list, std::string* text) {
  const nlohmann::json& first = list.front();
  const nlohmann::json* entry = &first;
  if (first.is_array() && !first.empty()) entry = &first.front();
  if (!entry->is_string()) return false;
  *text = entry->get<std::string>();
  return true;
}

}  // namespace

Status read_mlx(const Lookup& lookup, const Settings& settings, Launch* launch) {
  const char* rank = name_of(lookup, "JACCL_RANK", "MLX_RANK");
  const char* devices = name_of(lookup, "JACCL_IBV_DEVICES", "MLX_IBV_DEVICES");
  const char* coordinator = name_of(lookup, "JACCL_COORDINATOR", "MLX_JACCL_COORDINATOR");
  const bool jaccl = is_set(lookup, devices);
  const char* file = jaccl ? devices : "MLX_HOSTFILE";
  if (!is_set(lookup, file)) {
    return {tbcclInvalidArgument,
            formatted("{} is set, but neither MLX_HOSTFILE nor MLX_IBV_DEVICES: start the "
                      "program with mlx.launch, or set TBCCL_RANK, TBCCL_SIZE and "
                      "TBCCL_RENDEZVOUS",
                      rank)};
  }
  nlohmann::json list;
  if (Status s = read_list(lookup, file, &list); !s.ok()) return s;
  launch->size = static_cast<int>(list.size());
  if (Status s = read_number(lookup, rank, 0, launch->size - 1, &launch->rank); !s.ok()) return s;
  launch->where.address = settings.rendezvous;
  if (launch->size == 1 || !settings.rendezvous.empty()) return {};
  std::string text;
  if (jaccl ? !is_set(lookup, coordinator) : !first_address(list, &text)) {
    return {tbcclInvalidArgument,
            formatted("{} does not say where rank 0 is: set {}", jaccl ? coordinator : file,
                      "TBCCL_RENDEZVOUS=host:port")};
  }
  if (jaccl) text = lookup(coordinator);
  HostPort at;
  if (Status s = parse_host_port(text, &at); !s.ok()) {
    return {tbcclInvalidArgument, formatted("{}={}: {}", jaccl ? coordinator : file,
                                            lookup(jaccl ? coordinator : file), s.text())};
  }
  // The port belongs to MLX.
  return derived_address(at.host, formatted("mlx {}", text), at.port, settings, launch);
}

}  // namespace tbccl::bootstrap
