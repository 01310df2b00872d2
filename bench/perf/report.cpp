#include "report.h"

#include <fmt/core.h>

#include <cstdio>

#include "base/formatted.h"

namespace tbccl::perf {
namespace {

// Enough digits to compare by, never more than fits the column.
std::string figure(double value) {
  if (value >= 10'000) return formatted("{:.0f}", value);
  if (value >= 1'000) return formatted("{:.1f}", value);
  return formatted("{:.2f}", value);
}

std::string rate(double value) {
  return value >= 0.1 || value == 0 ? formatted("{:.2f}", value) : formatted("{:.4f}", value);
}

void print_columns(const Options& options) {
  const bool more = options.per_iteration;
  const std::string extra_names = more ? formatted(" {:>8} {:>8}", "p50", "p99") : "";
  const std::string extra_units = more ? formatted(" {:>8} {:>8}", "(us)", "(us)") : "";
  const int width = 33 + (more ? 18 : 0);
  const std::string names =
      formatted(" {:>8} {:>7} {:>7} {:>7}{}", options.cpu_time ? "cputime" : "time", "algbw",
                "busbw", "#wrong", extra_names);
  const std::string units =
      formatted(" {:>8} {:>7} {:>7} {:>7}{}", "(us)", "(GB/s)", "(GB/s)", "", extra_units);
  fmt::print("#\n# {:>11} {:>13} {:>10} {:>8} {:>6}  {:^{}}  {:^{}}\n", "", "", "", "", "",
             "out-of-place", width, "in-place", width);
  fmt::print("# {:>11} {:>13} {:>10} {:>8} {:>6}  {}  {}{}\n", "size", "count", "type", "redop",
             "root", names, names, options.timestamps ? "  timestamp" : "");
  fmt::print("# {:>11} {:>13} {:>10} {:>8} {:>6}  {}  {}\n", "(B)", "(elements)", "", "", "", units,
             units);
}

std::string cells(const Options& options, const Measurement& measurement) {
  const bool there = measurement.present;
  const auto text = [there](std::string value) { return there ? value : std::string("N/A"); };
  std::string line =
      formatted(" {:>8} {:>7} {:>7} {:>7}", text(figure(measurement.time_us)),
                text(rate(measurement.algbw)), text(rate(measurement.busbw)),
                measurement.checked && there ? formatted("{}", measurement.wrong) : "N/A");
  if (options.per_iteration) {
    line += formatted(" {:>8} {:>8}", text(figure(measurement.iterations.p50)),
                      text(figure(measurement.iterations.p99)));
  }
  return line;
}

}  // namespace

void print_header(const Options& options, const CollectiveTest& collective,
                  const std::vector<RankInfo>& ranks) {
  int library = 0;
  tbcclGetVersion(&library);
  fmt::print("# tbccl-perf {}.{}.{}, tbccl library {}.{}.{}\n", TBCCL_MAJOR, TBCCL_MINOR,
             TBCCL_PATCH, library / 10000, library / 100 % 100, library % 100);
  fmt::print("# Collective test starting: {}_perf\n", collective.name);
  const std::string step = options.step_factor > 1 ? formatted("{}(factor)", options.step_factor)
                                                   : formatted("{}(bytes)", options.step_bytes);
  fmt::print(
      "# ranks {} minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: {} "
      "validation: {} blocking: {}\n",
      ranks.size(), options.min_bytes, options.max_bytes, step, options.warmup, options.iterations,
      options.operations, options.checks, options.blocking ? 1 : 0);
  fmt::print("#\n# Using ranks\n");
  for (const RankInfo& rank : ranks) {
    fmt::print("#  Rank {:>2} Group {:>2} Pid {:>6} on {}\n", rank.rank, 0, rank.pid, rank.host);
  }
  print_columns(options);
  std::fflush(stdout);
}

void print_row(const Options& options, const Row& row) {
  fmt::print("  {:>11} {:>13} {:>10} {:>8} {:>6}  {}  {}{}{}\n", row.bytes, row.count, row.type,
             row.redop, row.root, cells(options, row.out_of_place), cells(options, row.in_place),
             row.timestamp.empty() ? "" : "  ", row.timestamp);
  std::fflush(stdout);
}

void print_footer(const Options& options, const Summary& summary) {
  if (options.checks > 0) {
    fmt::print("# Out of bounds values : {} {}\n", summary.wrong,
               summary.wrong == 0 ? "OK" : "FAILED");
  } else {
    fmt::print("# Out of bounds values : not checked\n");
  }
  fmt::print("# Avg bus bandwidth    : {:.6g}\n#\n", summary.average_busbw);
  std::fflush(stdout);
}

}  // namespace tbccl::perf
