#include "topology/cabling.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cctype>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/formatted.h"

namespace tbccl::topology {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = 16 << 20;
constexpr size_t kMaxScope = 15;

// Where in the file something is wrong.
struct Place {
  const std::string& source;
  size_t cable;

  Status error(const std::string& field, const std::string& what) const {
    return Status(tbcclInvalidArgument,
                  formatted("{}: cable {}: \"{}\" {}", source, cable, field, what));
  }
};

// The literal in the one way the system writes it, so that two spellings compare equal; empty if
// it is none.
std::string canonical_address(const std::string& text) {
  const size_t percent = text.find('%');
  const std::string scope = percent == std::string::npos ? "" : text.substr(percent);
  const std::string bare = text.substr(0, percent);
  unsigned char bytes[16] = {};
  char out[INET6_ADDRSTRLEN] = {};
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, bare.c_str(), bytes) != 1) continue;
    const bool scope_fits =
        scope.empty() || (family == AF_INET6 && scope.size() > 1 && scope.size() <= kMaxScope + 1);
    if (!scope_fits || inet_ntop(family, bytes, out, sizeof out) == nullptr) return {};
    return out + scope;
  }
  return {};
}

Status read_end(const Json& end, const std::string& field, int size, const Place& place,
                CableEnd* out) {
  if (!end.is_object()) return place.error(field, "is not an object with \"rank\" and \"address\"");
  const auto rank = end.find("rank");
  if (rank == end.end() || !rank->is_number_integer())
    return place.error(field + ".rank", "is missing or not an integer");
  // Read as the widest type: an absurd number must not wrap into range.
  const bool in_range =
      rank->is_number_unsigned() ? rank->get<uint64_t>() < static_cast<uint64_t>(size) : false;
  if (!in_range) {
    return place.error(field + ".rank",
                       formatted("is {}, but ranks are 0 to {}", rank->dump(), size - 1));
  }
  const auto address = end.find("address");
  if (address == end.end() || !address->is_string())
    return place.error(field + ".address", "is missing or not a string");
  out->rank = static_cast<int>(rank->get<uint64_t>());
  out->address = canonical_address(address->get<std::string>());
  if (out->address.empty()) {
    return place.error(field + ".address",
                       formatted("is {}, which is not an IPv4 or IPv6 address",
                                 address->dump(-1, ' ', true, Json::error_handler_t::replace)));
  }
  return {};
}

Status read_cable(const Json& cable, int size, const Place& place, CableSpec* out) {
  if (!cable.is_object()) return place.error("cables", "holds something that is not an object");
  for (const auto& [name, value] : cable.items()) {
    if (name != "ends" && name != "rate")
      return place.error(name, "is not known; fields are \"ends\" and \"rate\"");
  }
  const auto ends = cable.find("ends");
  if (ends == cable.end() || !ends->is_array() || ends->size() != 2) {
    return place.error("ends", "is missing or not a list of two ends");
  }
  if (Status s = read_end((*ends)[0], "ends[0]", size, place, &out->a); !s.ok()) return s;
  if (Status s = read_end((*ends)[1], "ends[1]", size, place, &out->b); !s.ok()) return s;
  if (out->a.rank == out->b.rank)
    return place.error("ends", formatted("are both rank {}", out->a.rank));
  const auto family = [](const CableEnd& end) {
    return end.address.find(':') == std::string::npos ? "IPv4" : "IPv6";
  };
  if (std::string(family(out->a)) != family(out->b)) {
    return place.error("ends",
                       formatted("are {} ({}) and {} ({}); give both ends an address of "
                                 "one family",
                                 out->a.address, family(out->a), out->b.address, family(out->b)));
  }
  const auto rate = cable.find("rate");
  if (rate == cable.end()) return {};
  if (!rate->is_string() || !parse_rate(rate->get<std::string>(), &out->rate)) {
    return place.error(
        "rate", formatted("is {}; it is a string such as \"100mbit\", \"40gbit\" or \"5GB/s\"",
                          rate->dump(-1, ' ', true, Json::error_handler_t::replace)));
  }
  return {};
}

}  // namespace

bool parse_rate(const std::string& text, double* rate) {
  size_t digits = 0;
  int points = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.')) {
    points += text[digits++] == '.' ? 1 : 0;
  }
  if (digits == 0 || digits > 20 || points > 1 || text[0] == '.') return false;
  // By hand: strtod follows the program's locale.
  double value = 0, scale = 1;
  bool fraction = false;
  for (size_t i = 0; i < digits; ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    value = value * 10 + (text[i] - '0');
    if (fraction) scale *= 10;
  }
  value /= scale;
  std::string unit = text.substr(digits);
  if (unit.size() > 2 && unit.compare(unit.size() - 2, 2, "/s") == 0) unit.resize(unit.size() - 2);
  static const std::map<std::string, double> units = {
      {"bit", 1e-9 / 8}, {"kbit", 1e-6 / 8}, {"mbit", 1e-3 / 8}, {"gbit", 1.0 / 8},
      {"B", 1e-9},       {"KB", 1e-6},       {"MB", 1e-3},       {"GB", 1.0}};
  const auto found = units.find(unit);
  if (found == units.end() || !(value > 0)) return false;
  *rate = value * found->second;
  return true;
}

Status parse_cabling(const std::string& text, const std::string& source, int size,
                     std::vector<CableSpec>* cables) {
  cables->clear();
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return Status(tbcclInvalidArgument, source + ": is not JSON");
  const auto list = root.is_object() ? root.find("cables") : root.end();
  if (!root.is_object() || list == root.end() || !list->is_array()) {
    return Status(tbcclInvalidArgument, source + ": has no list \"cables\"");
  }
  std::vector<CableSpec> found;
  std::map<std::pair<int, std::string>, size_t> used;
  for (size_t i = 0; i < list->size(); ++i) {
    const Place place{source, i};
    CableSpec cable;
    if (Status s = read_cable((*list)[i], size, place, &cable); !s.ok()) return s;
    for (const CableEnd* end : {&cable.a, &cable.b}) {
      const auto [it, fresh] = used.emplace(std::make_pair(end->rank, end->address), i);
      if (fresh) continue;
      return place.error("address",
                         formatted("{} of rank {} is already an end of cable {}; every cable needs "
                                   "addresses of its own",
                                   end->address, end->rank, it->second));
    }
    found.push_back(std::move(cable));
  }
  *cables = std::move(found);
  return {};
}

Status read_cabling(const std::string& path, int size, std::vector<CableSpec>* cables) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Status(tbcclInvalidArgument, formatted("the cabling file {} (TBCCL_CABLING) cannot be "
                                                  "read; check the path and its permissions",
                                                  path));
  }
  std::string text;
  char part[64 * 1024];
  while (file.read(part, sizeof part), file.gcount() > 0) {
    text.append(part, static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes)
      return Status(tbcclInvalidArgument, path + ": is too large for a cabling file");
  }
  return parse_cabling(text, path, size, cables);
}

}  // namespace tbccl::topology
