#include "base/settings.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "base/formatted.h"
#include "base/log.h"
#include "base/numbers.h"
#include "base/variables.h"

#if defined(__APPLE__)
#include <crt_externs.h>
#else
extern char** environ;
#endif

namespace tbccl {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kLongestTime = 1'000'000'000 * kSecond;  // about 31 years
constexpr uint64_t kLargestSegment = uint64_t{1} << 30;
constexpr uint64_t kSmallestSegment = 16;  // the largest element
constexpr uint64_t kMostRanks = uint64_t{1} << 20;

struct Variable {
  const char* name;
  const char* type;      // what a right value is; ends the sentence "give ..."
  const char* fallback;  // the default, as its text
  const char* doc;
  // False: malformed or out of range. NULL: read elsewhere (the logger, which comes first).
  bool (*set)(Settings&, std::string_view);
};

template <class T>
bool store(std::optional<uint64_t> parsed, uint64_t smallest, T* field) {
  if (!parsed || *parsed < smallest) return false;
  *field = static_cast<T>(*parsed);
  return true;
}

bool store_text(std::string_view text, std::string* field) {
  *field = text;
  return true;
}

bool store_port_range(std::string_view text, std::string* field) {
  constexpr uint64_t kLastPort = 65535;
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos || text.find('.') != std::string_view::npos) return false;
  const auto first = parse_decimal(text.substr(0, dash), 1, kLastPort);
  const auto last = parse_decimal(text.substr(dash + 1), 1, kLastPort);
  return first && last && *first >= 1 && *first <= *last && store_text(text, field);
}

std::optional<uint64_t> parse_count(std::string_view text, uint64_t largest) {
  if (text.find('.') != std::string_view::npos) return std::nullopt;
  return parse_decimal(text, 1, largest);
}

constexpr const char* kText = "a text";

const Variable kVariables[] = {
    {"TBCCL_TIMEOUT", "seconds from 0 (none) to 1000000000, fractions allowed", "600",
     "deadline of one operation",
     [](Settings& s, std::string_view v) {
       return store(parse_decimal(v, kSecond, kLongestTime), 0, &s.timeout_ns);
     }},
    {"TBCCL_CONNECT_TIMEOUT", "seconds above 0 and up to 1000000000, fractions allowed", "60",
     "deadline of rendezvous and of connecting",
     [](Settings& s, std::string_view v) {
       return store(parse_decimal(v, kSecond, kLongestTime), 1, &s.connect_timeout_ns);
     }},
    {"TBCCL_DETERMINISTIC", "0 or 1", "0",
     "1: results depend on inputs, type, operator and number of ranks only",
     [](Settings& s, std::string_view v) { return store(parse_count(v, 1), 0, &s.deterministic); }},
    {"TBCCL_ALGO", kText, "",
     "algorithms to use or (^) to avoid, by operation and size: allreduce:ring@1M-;broadcast:^tree",
     [](Settings& s, std::string_view v) { return store_text(v, &s.algorithms); }},
    {"TBCCL_TRANSPORT", kText, "", "transports to use (tcp,shm) or to avoid (^verbs)",
     [](Settings& s, std::string_view v) { return store_text(v, &s.transports); }},
    {"TBCCL_CABLING", "the path of a file", "", "JSON file that describes the cables",
     [](Settings& s, std::string_view v) { return store_text(v, &s.cabling); }},
    {"TBCCL_TUNING", "the path of a file", "",
     "JSON file with measured costs and choices, written by tbccl-perf --tune",
     [](Settings& s, std::string_view v) { return store_text(v, &s.tuning); }},
    {"TBCCL_RENDEZVOUS", "host:port or [IPv6]:port", "", "where the ranks meet; rank 0 listens",
     [](Settings& s, std::string_view v) { return store_text(v, &s.rendezvous); }},
    {"TBCCL_RANK", "a whole number from 0 to 1048575", "", "this process's rank",
     [](Settings& s, std::string_view v) {
       return store(parse_count(v, kMostRanks - 1), 0, &s.rank);
     }},
    {"TBCCL_SIZE", "a whole number from 1 to 1048576", "", "the number of ranks",
     [](Settings& s, std::string_view v) { return store(parse_count(v, kMostRanks), 1, &s.size); }},
    {"TBCCL_LAUNCHER", "torchrun, openmpi, mpich, slurm, mlx or none", "",
     "whose variables tbcclCommInitEnv reads; empty: the innermost that is seen",
     [](Settings& s, std::string_view v) { return store_text(v, &s.launcher); }},
    {"TBCCL_SOCKET_IFNAME", kText, "", "network interfaces for rendezvous and fallback",
     [](Settings& s, std::string_view v) { return store_text(v, &s.socket_interface); }},
    {"TBCCL_PORT_RANGE", "first-last, both from 1 to 65535", "", "TCP ports to listen on",
     [](Settings& s, std::string_view v) { return store_port_range(v, &s.port_range); }},
    {"TBCCL_SECRET", kText, "", "shared secret that peers must prove to know",
     [](Settings& s, std::string_view v) { return store_text(v, &s.secret); }},
    {"TBCCL_SPIN_US", "microseconds from 0 to 1000000000, fractions allowed", "20",
     "how long a waiting thread spins before it yields",
     [](Settings& s, std::string_view v) {
       return store(parse_decimal(v, 1'000, 1'000 * kSecond), 0, &s.spin_ns);
     }},
    {"TBCCL_YIELD_US", "microseconds from 0 to 1000000000, fractions allowed", "200",
     "how long a waiting thread yields before it sleeps",
     [](Settings& s, std::string_view v) {
       return store(parse_decimal(v, 1'000, 1'000 * kSecond), 0, &s.yield_ns);
     }},
    {"TBCCL_SEGMENT", "0, or bytes from 16 to 1G (suffixes K, M, G)", "0",
     "size of one segment; 0: the transport's best",
     [](Settings& s, std::string_view v) {
       const auto bytes = parse_bytes(v, kLargestSegment);
       return store(bytes, bytes == 0u ? 0 : kSmallestSegment, &s.segment_bytes);
     }},
    {"TBCCL_DEBUG", "NONE, ERROR, WARN, INFO or TRACE", "WARN", "what is logged", nullptr},
    {"TBCCL_DEBUG_FILE", "a path; %h is the host, %p the process", "",
     "file to log to instead of stderr", nullptr},
};

constexpr std::string_view kPrefix = "TBCCL_";
constexpr std::string_view kTestsPrefix = "TBCCL_TESTS_";

const Variable* find_variable(std::string_view name) {
  const auto* found = std::find_if(std::begin(kVariables), std::end(kVariables),
                                   [name](const Variable& v) { return name == v.name; });
  return found == std::end(kVariables) ? nullptr : found;
}

// Levenshtein's distance: insertions, deletions and replacements.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

const char* const* process_environment() {
#if defined(__APPLE__)
  return *_NSGetEnviron();
#else
  return environ;
#endif
}

void warn_about_unknown_variables() {
  static std::atomic<bool> warned{false};
  // Whoever is first warns; nothing else is published, so no order is needed.
  if (warned.exchange(true, std::memory_order_relaxed)) return;
  for (const std::string& text : unknown_variables(process_environment())) log::warn("{}", text);
}

// A time of tbcclConfig_t in milliseconds, if it is set.
Status apply_time(const char* field, int64_t milliseconds, int64_t smallest, uint64_t* time_ns) {
  if (milliseconds == TBCCL_UNSET_I64) return {};
  constexpr int64_t kMillisecond = 1'000'000;
  const auto largest = static_cast<int64_t>(kLongestTime / kMillisecond);
  if (milliseconds < smallest || milliseconds > largest) {
    return {tbcclInvalidArgument,
            formatted("tbcclConfig_t.{} is {}: give milliseconds from {} to {}, or leave it as "
                      "TBCCL_CONFIG_INITIALIZER sets it",
                      field, milliseconds, smallest, largest)};
  }
  *time_ns = static_cast<uint64_t>(milliseconds * kMillisecond);
  return {};
}

}  // namespace

Status set_variable(std::string_view name, std::string_view value, Settings* settings) {
  const Variable* variable = find_variable(name);
  if (variable == nullptr) {
    return {tbcclInvalidArgument, formatted("{} is no variable of tbccl", name)};
  }
  if (value.empty() || variable->set == nullptr || variable->set(*settings, value)) return {};
  return {tbcclInvalidArgument,
          formatted("{}={} is not understood: give {}", name, value, variable->type)};
}

std::string closest_variable(std::string_view name) {
  // Nothing that long is a misspelling, and the distance costs the product of both lengths.
  constexpr size_t kLongestName = 64;
  if (name.size() > kLongestName) return {};
  const Variable* best = nullptr;
  size_t best_distance = 0;
  for (const Variable& variable : kVariables) {
    const size_t distance = edit_distance(name, variable.name);
    if (best == nullptr || distance < best_distance) {
      best = &variable;
      best_distance = distance;
    }
  }
  // The common prefix says nothing: a third of the rest may be wrong, two letters always.
  const size_t rest = name.size() > kPrefix.size() ? name.size() - kPrefix.size() : 0;
  return best_distance <= std::max<size_t>(2, rest / 3) ? best->name : std::string();
}

std::vector<std::string> unknown_variables(const char* const* environment) {
  std::vector<std::string> texts;
  if (environment == nullptr) return texts;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || name.starts_with(kTestsPrefix)) continue;
    if (find_variable(name) != nullptr) continue;
    const std::string closest = closest_variable(name);
    texts.push_back(closest.empty()
                        ? formatted("{} is no variable of tbccl and has no effect", name)
                        : formatted("{} is no variable of tbccl and has no effect: was {} meant?",
                                    name, closest));
  }
  return texts;
}

Status Settings::from_environment(Settings* settings) {
  warn_about_unknown_variables();
  for (const Variable& variable : kVariables) {
    const char* value = std::getenv(variable.name);
    if (value == nullptr) continue;
    Status status = set_variable(variable.name, value, settings);
    if (!status.ok()) return status;
  }
  return {};
}

Status Settings::apply(const tbcclConfig_t* config, Settings* settings) {
  if (config == nullptr) return {};
  // Callers compiled against an older header have a smaller structure, against a newer one a
  // larger one whose new fields mean nothing here. Everything up to `version` was always there.
  constexpr size_t kSmallest = offsetof(tbcclConfig_t, version) + sizeof(config->version);
  tbcclConfig_t known = TBCCL_CONFIG_INITIALIZER;
  if (config->size < kSmallest || config->size % alignof(tbcclConfig_t) != 0 ||
      config->magic != TBCCL_CONFIG_MAGIC) {
    return {tbcclInvalidArgument,
            formatted("the tbcclConfig_t at {} was not initialised (size {}): start it with "
                      "TBCCL_CONFIG_INITIALIZER",
                      static_cast<const void*>(config), config->size)};
  }
  std::memcpy(&known, config, std::min(config->size, sizeof known));

  Settings result = *settings;
  Status status = apply_time("timeoutMs", known.timeoutMs, 0, &result.timeout_ns);
  if (!status.ok()) return status;
  status = apply_time("connectTimeoutMs", known.connectTimeoutMs, 1, &result.connect_timeout_ns);
  if (!status.ok()) return status;
  if (known.deterministic != TBCCL_UNSET_INT) {
    if (known.deterministic != 0 && known.deterministic != 1) {
      return {tbcclInvalidArgument,
              formatted("tbcclConfig_t.deterministic is {}: give 0 or 1", known.deterministic)};
    }
    result.deterministic = known.deterministic == 1;
  }
  if (known.algorithms != nullptr) result.algorithms = known.algorithms;
  if (known.transports != nullptr) result.transports = known.transports;
  if (known.cabling != nullptr) result.cabling = known.cabling;
  if (known.commName != nullptr) result.comm_name = known.commName;
  if (known.tuning != nullptr) result.tuning = known.tuning;
  if (known.tuner != nullptr) {
    result.tuner = known.tuner;
    result.tuner_context = known.tunerContext;
  }
  *settings = std::move(result);
  return {};
}

std::string Settings::describe() {
  std::string text;
  for (const Variable& variable : kVariables) {
    text += formatted("{:<22} {}\n{:<22} {} (default: {})\n", variable.name, variable.doc, "",
                      variable.type, *variable.fallback == '\0' ? "not set" : variable.fallback);
  }
  return text;
}

}  // namespace tbccl
