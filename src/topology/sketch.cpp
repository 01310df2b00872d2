#include "topology/sketch.h"

#include <algorithm>
#include <cctype>

#include "base/formatted.h"
#include "topology/cabling.h"

namespace tbccl::topology {
namespace {

constexpr const char* kKinds =
    "ring:N, chain:N, mesh:N, star:N, torus:AxB, two-level:HOSTSxRANKS, network:N or host:N";
constexpr int kMostCablesEach = 64;
constexpr int kMostCores = 65536;

Status wrong(const std::string& text, const std::string& what) {
  return {tbcclInvalidArgument, formatted("topology \"{}\": {}", text, what)};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back().push_back(c);
  }
  return parts;
}

bool parse_number(const std::string& text, int least, int most, int* number) {
  if (text.empty() || text.size() > 7) return false;
  int value = 0;
  for (char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
    value = value * 10 + (c - '0');
  }
  *number = value;
  return value >= least && value <= most;
}

// "4x8" into its numbers; their product is the number of ranks.
bool parse_dimensions(const std::string& text, std::vector<int>* dimensions, int* ranks) {
  int64_t product = 1;
  for (const std::string& part : split(text, 'x')) {
    int value = 0;
    if (!parse_number(part, 1, kMostSketchedRanks, &value)) return false;
    dimensions->push_back(value);
    product *= value;
    if (product > kMostSketchedRanks) return false;
  }
  *ranks = static_cast<int>(product);
  return true;
}

void add_torus(const std::vector<int>& dimensions, Sketch* s) {
  int below = 1;  // ranks that lower dimensions hold
  for (int length : dimensions) {
    for (int rank = 0; rank < s->ranks; ++rank) {
      const int place = rank / below % length;
      // Around two there is one cable, not two.
      if (length < 2 || (length == 2 && place == 1)) continue;
      s->cables.push_back({rank, rank + below * ((place + 1) % length - place)});
    }
    below *= length;
  }
}

void add_cables(const std::string& kind, const std::vector<int>& dimensions, Sketch* s) {
  const int n = s->ranks;
  if (kind == "torus") return add_torus(dimensions, s);
  if (kind == "ring") return add_torus({n}, s);
  for (int a = 0; a < n; ++a) {
    if (kind == "chain" && a + 1 < n) s->cables.push_back({a, a + 1});
    if (kind == "star" && a > 0) s->cables.push_back({0, a});
    for (int b = a + 1; kind == "mesh" && b < n; ++b) s->cables.push_back({a, b});
  }
}

Status read_kind(const std::string& text, const std::string& first, Sketch* s) {
  const size_t colon = first.find(':');
  const std::string kind = first.substr(0, colon);
  const std::string size = colon == std::string::npos ? "" : first.substr(colon + 1);
  std::vector<int> dimensions;
  if (colon == std::string::npos || !parse_dimensions(size, &dimensions, &s->ranks)) {
    return wrong(text, formatted("write {}, of at most {} ranks", kKinds, kMostSketchedRanks));
  }
  const bool flat = kind == "ring" || kind == "chain" || kind == "mesh" || kind == "star" ||
                    kind == "network" || kind == "host";
  if (!flat && kind != "torus" && kind != "two-level")
    return wrong(text, formatted("\"{}\" is not known; write {}", kind, kKinds));
  if (flat && dimensions.size() != 1)
    return wrong(text, formatted("{} takes one number of ranks", kind));
  if (kind == "two-level" && dimensions.size() != 2)
    return wrong(text, "two-level takes two numbers, HOSTSxRANKS");
  if (kind == "mesh" &&
      static_cast<size_t>(s->ranks) * static_cast<size_t>(s->ranks - 1) / 2 > kMostSketchedCables) {
    return wrong(text, formatted("that are more than {} cables", kMostSketchedCables));
  }
  const int each = kind == "two-level" ? dimensions[1] : kind == "host" ? s->ranks : 1;
  for (int rank = 0; rank < s->ranks; ++rank) s->host.push_back(rank / each);
  s->cores = each;
  add_cables(kind, dimensions, s);
  return {};
}

Status read_pair(const std::string& text, const std::string& value, const Sketch& s,
                 Sketch::Join* join) {
  const auto ends = split(value, '-');
  if (ends.size() == 2 && parse_number(ends[0], 0, s.ranks - 1, &join->a) &&
      parse_number(ends[1], 0, s.ranks - 1, &join->b) && join->a != join->b) {
    return {};
  }
  return wrong(text, formatted("\"{}\" is not a pair of ranks; write 0-1, with ranks 0 to {}",
                               value, s.ranks - 1));
}

Status change_cables(const std::string& text, const std::string& key, const std::string& value,
                     Sketch* s) {
  if (key == "k") {
    int k = 0;
    if (!parse_number(value, 1, kMostCablesEach, &k) ||
        s->cables.size() * static_cast<size_t>(k) > kMostSketchedCables) {
      return wrong(text, formatted("k={} is no number of cables from 1 to {}, or makes more than "
                                   "{} in all",
                                   value, kMostCablesEach, kMostSketchedCables));
    }
    const std::vector<Sketch::Join> once = s->cables;
    for (int i = 1; i < k; ++i) s->cables.insert(s->cables.end(), once.begin(), once.end());
    return {};
  }
  Sketch::Join join;
  if (Status status = read_pair(text, value, *s, &join); !status.ok()) return status;
  if (key == "extra") {
    s->cables.push_back(join);
    return {};
  }
  const auto found = std::find_if(s->cables.begin(), s->cables.end(), [&](const Sketch::Join& c) {
    return c == join || c == Sketch::Join{join.b, join.a};
  });
  if (found == s->cables.end()) return wrong(text, formatted("there is no cable {}", value));
  s->cables.erase(found);
  return {};
}

Status read_option(const std::string& text, const std::string& option, Sketch* s) {
  const size_t equals = option.find('=');
  const std::string key = option.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  if (key == "k" || key == "missing" || key == "extra") return change_cables(text, key, value, s);
  if (key == "rate") {
    if (parse_rate(value, &s->rate)) return {};
    return wrong(text, formatted("rate={} is not a rate; write 100mbit, 40gbit or 5GB/s", value));
  }
  if (key == "alpha") {
    if (parse_time(value, &s->alpha_ns)) return {};
    return wrong(text, formatted("alpha={} is not a time; write 300ns, 25us or 1ms", value));
  }
  if (key == "cores") {
    if (parse_number(value, 1, kMostCores, &s->cores)) return {};
    return wrong(text, formatted("cores={} is not a number from 1 to {}", value, kMostCores));
  }
  return wrong(text, formatted("\"{}\" is not known; there are rate=, alpha=, k=, missing=, "
                               "extra= and cores=",
                               option));
}

}  // namespace

bool parse_time(const std::string& text, double* ns) {
  size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.'))
    ++digits;
  const std::string unit = text.substr(digits);
  const double scale = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : 0;
  // Rates and times are written with the same numbers; "B" has the factor 1e-9.
  double value = 0;
  if (scale == 0) return false;
  if (text.substr(0, digits).find_first_not_of("0.") == std::string::npos) {
    *ns = 0;
    return digits > 0;
  }
  if (!parse_rate(text.substr(0, digits) + "GB", &value)) return false;
  *ns = value * scale;
  return true;
}

Status parse_sketch(const std::string& text, Sketch* sketch) {
  const std::vector<std::string> parts = split(text, ',');
  Sketch result;
  if (Status status = read_kind(text, parts[0], &result); !status.ok()) return status;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (Status status = read_option(text, parts[i], &result); !status.ok()) return status;
  }
  *sketch = std::move(result);
  return {};
}

}  // namespace tbccl::topology
