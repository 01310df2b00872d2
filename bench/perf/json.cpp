#include "json.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/formatted.h"

extern char** environ;

namespace tbccl::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 3;
constexpr int kMostSuffixes = 10'000;

// Only the variables that change what tbccl does, and never the secret.
Json environment() {
  Json all = Json::array();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.starts_with("TBCCL_") && !text.starts_with("TBCCL_SECRET")) all.push_back(text);
  }
  return all;
}

Json configuration(const Options& options, const std::vector<RankInfo>& ranks) {
  Json config;
  config["nthreads"] = 1;
  config["ngpus"] = 1;
  config["minimum_bytes"] = options.min_bytes;
  config["maximum_bytes"] = options.max_bytes;
  if (options.step_factor > 1) {
    config["step_factor"] = options.step_factor;
  } else {
    config["step_bytes"] = options.step_bytes;
  }
  config["warmup_iters"] = options.warmup;
  config["iterations"] = options.iterations;
  config["aggregated_iterations"] = options.operations;
  config["validation"] = options.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = options.blocking ? 1 : 0;
  config["per_iter_timing"] = options.per_iteration;
  config["per_iter_skip"] = options.skip;
  config["parallel_init"] = true;
  config["devices"] = Json::array();
  for (const RankInfo& rank : ranks) {
    config["devices"].push_back(
        {{"rank", rank.rank}, {"group", 0}, {"pid", rank.pid}, {"hostname", rank.host}});
  }
  return config;
}

Json figures(const Options& options, const Measurement& measurement) {
  if (!measurement.present) return nullptr;
  Json out;
  out[options.cpu_time ? "cpu_time" : "time"] = measurement.time_us;
  out["alg_bw"] = measurement.algbw;
  out["bus_bw"] = measurement.busbw;
  out["nwrong"] = measurement.checked ? Json(measurement.wrong) : Json(nullptr);
  return out;
}

Json iterations(const Iterations& all) {
  const double variation = all.average > 0 ? 100 * all.deviation / all.average : 0;
  return {{"skipped_iterations", all.skipped},
          {"min_us", all.least},
          {"max_us", all.most},
          {"avg_us", all.average},
          {"p50_us", all.p50},
          {"p95_us", all.p95},
          {"p99_us", all.p99},
          {"stdev_us", all.deviation},
          {"cv_pct", variation},
          {"times_us", all.times}};
}

Status write_all(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return {tbcclSystemError, formatted("cannot write the JSON file: {}", std::strerror(errno))};
    }
    done += static_cast<size_t>(written);
  }
  return {};
}

// Opens `path`, or path.1, path.2, ... if it exists.
Status create_new(const std::string& path, int* file) {
  for (int suffix = 0; suffix < kMostSuffixes; ++suffix) {
    const std::string name = suffix == 0 ? path : formatted("{}.{}", path, suffix);
    *file = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*file >= 0) return {};
    if (errno != EEXIST) {
      return {tbcclSystemError, formatted("cannot create {}: {}", name, std::strerror(errno))};
    }
  }
  return {tbcclSystemError, formatted("{} and {} files named after it exist already; remove some",
                                      path, kMostSuffixes - 1)};
}

}  // namespace

struct JsonFile::State {
  int file = -1;
  Json root;
};

JsonFile::JsonFile() : state_(std::make_unique<State>()) {}

JsonFile::~JsonFile() {
  if (state_->file >= 0) close(state_->file);
}

bool JsonFile::is_open() const { return state_->file >= 0; }

Status JsonFile::create(const std::string& path) { return create_new(path, &state_->file); }

void JsonFile::begin(const Options& options, const std::vector<std::string>& arguments,
                     const std::vector<RankInfo>& ranks) {
  Json& root = state_->root;
  root["version"] = kFormatVersion;
  root["start_time"] = time_text();
  root["args"] = arguments;
  root["env"] = environment();
  int library = 0;
  tbcclGetVersion(&library);
  root["tbccl_version"] = library;
  root["config"] = configuration(options, ranks);
  root["results"] = Json::array();
  root["errors"] = Json::array();
}

void JsonFile::add(const Options& options, const Row& row) {
  Json result = {{"size", row.bytes},
                 {"count", row.count},
                 {"type", row.type},
                 {"redop", row.redop},
                 {"root", row.root},
                 {"out_of_place", figures(options, row.out_of_place)},
                 {"in_place", figures(options, row.in_place)}};
  if (options.per_iteration) {
    result["out_of_place_per_iter"] = iterations(row.out_of_place.iterations);
    if (row.in_place.present) result["in_place_per_iter"] = iterations(row.in_place.iterations);
  }
  result["actual_iterations"] = options.iterations;
  result["experiment_name"] = options.collective + "_perf";
  if (!row.timestamp.empty()) result["timestamp"] = row.timestamp;
  state_->root["results"].push_back(std::move(result));
}

void JsonFile::add_error(const std::string& text) { state_->root["errors"].push_back(text); }

Status JsonFile::finish(const Summary& summary) {
  Json& root = state_->root;
  const Json errors = std::move(root["errors"]);
  root.erase("errors");
  root["out_of_bounds"] = {{"count", summary.wrong}, {"okay", summary.wrong == 0}};
  root["average_bus_bandwidth"] = {{"bandwidth", summary.average_busbw}, {"okay", true}};
  root["errors"] = errors;
  root["end_time"] = time_text();
  return write_all(state_->file, root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Status write_json(const std::string& path, const std::string& text) {
  int file = -1;
  if (Status status = create_new(path, &file); !status.ok()) return status;
  const Status status = write_all(file, text);
  close(file);
  return status;
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

}  // namespace tbccl::perf
