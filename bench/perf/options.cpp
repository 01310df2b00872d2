#include "options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>

#include "base/formatted.h"

namespace tbccl::perf {
namespace {

struct Refused {
  const char* names;
  const char* why;
};

// Options of nccl-tests that have no meaning where the processor does the work.
constexpr std::array kRefused = {
    Refused{"-G,--cudagraph", "there are no graphs to capture"},
    Refused{"-D,--device_implementation", "collectives run on the processor"},
    Refused{"-V,--device_cta_count", "collectives run on the processor"},
    Refused{"-x,--cta_policy", "collectives run on the processor"},
    Refused{"-y,--stream_null", "there are no streams"},
    Refused{"-M,--memory", "there is no device memory to report"},
    Refused{"-p,--parallel_init", "every rank is a process of its own and starts in parallel"},
};

// As the command line has it, before names and sizes are resolved.
struct Raw {
  std::string collective;
  std::string min_bytes, max_bytes, step_bytes;
  std::string types = "float", operators = "sum", root = "0";
  int threads = 1, registration = 0, blocking = 1, cpu_time = 0, timestamps = 0, per_iteration = 0,
      unaligned = 0;
};

std::string refusal(const std::string& names, const char* why) {
  return formatted("{} has no meaning here: {}", names.substr(0, names.find(',')), why);
}

void add_options(CLI::App& app, Raw* raw, Options* o) {
  app.add_option("collective", raw->collective,
                 "all_reduce, all_gather, alltoall, broadcast, gather, reduce, reduce_scatter, "
                 "scatter, scan, exscan, sendrecv, or one of all_gather_v, alltoall_v, gather_v, "
                 "reduce_scatter_v and scatter_v (also all_reduce_perf, ...)");
  app.add_option("-g,--ngpus,--ranks", o->local_ranks,
                 "start this many ranks on this machine; without it, join the job that TBCCL_RANK, "
                 "TBCCL_SIZE and TBCCL_RENDEZVOUS describe (one rank if they are not set)")
      ->check(CLI::Range(1, 1024));
  app.add_option("-t,--nthreads", raw->threads, "threads per process: 1 is all there is");
  app.add_option("-b,--minbytes", raw->min_bytes, "smallest size, with K, M or G (32M)");
  app.add_option("-e,--maxbytes", raw->max_bytes, "largest size (32M)");
  app.add_option("-i,--stepbytes", raw->step_bytes, "step between sizes, in bytes (1M)");
  app.add_option("-f,--stepfactor", o->step_factor, "factor between sizes, instead of -i")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("-n,--iters", o->iterations, "timed iterations (20)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("-m,--agg_iters", o->operations, "operations grouped in one iteration (1)")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("-w,--warmup_iters", o->warmup, "iterations before the clock starts (1)")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("-N,--run_cycles", o->cycles, "sweeps (1; 0: for ever)")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("-c,--check", o->checks, "verification passes per size (1; 0: none)")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("-o,--op", raw->operators,
                 "sum prod max min avg mulsum band bor bxor land lor lxor; a comma list, or all");
  app.add_option("-d,--datatype", raw->types,
                 "int8 uint8 int16 uint16 int32 uint32 int64 uint64 half float double bfloat16 "
                 "f8e4m3 f8e5m2 bool complex64 complex128; a comma list, or all");
  app.add_option("-r,--root", raw->root, "root of rooted collectives (0; all or -1: each in turn)");
  app.add_option(
         "-z,--blocking", raw->blocking,
         "1: every call blocks (default); 0: calls are submitted ahead and waited for later")
      ->check(CLI::Range(0, 1));
  app.add_option("-a,--average", o->average,
                 "which rank's time counts: 0 rank 0's, 1 the average, 2 the least, 3 the most (1)")
      ->check(CLI::Range(0, 3));
  app.add_option("-C,--report_cputime", raw->cpu_time,
                 "1: processor time that the process used per operation, instead of elapsed time")
      ->check(CLI::Range(0, 1));
  app.add_option("-S,--report_timestamps", raw->timestamps, "1: a time stamp on every line")
      ->check(CLI::Range(0, 1));
  app.add_option("-I,--per_iter_timing", raw->per_iteration,
                 "1: time each iteration; adds the columns p50 and p99")
      ->check(CLI::Range(0, 1));
  app.add_option("-K,--per_iter_skip", o->skip, "iterations left out of those columns (0)")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("-T,--timeout", o->timeout, "seconds until an operation fails (0: never)")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("-R,--local_register", raw->registration,
                 "1: buffers from tbcclMemAlloc, which ranks of one host read directly");
  app.add_option("-u,--unalign", raw->unaligned, "1: buffers begin one element off alignment")
      ->check(CLI::Range(0, 1));
  app.add_option("-J,--output_file", o->json,
                 "write the results as JSON too; if the file exists, to FILE.1, FILE.2, ...");
  app.add_flag("--explain", o->explain,
               "print the candidate algorithms, their predicted times and the choice; run nothing");
  app.add_option("--simulate", o->simulate,
                 "predict instead: every algorithm on a topology that need not exist, against its "
                 "lower bound; ring:8, mesh:4,missing=0-1, chain:4, star:5, torus:4x4, "
                 "two-level:4x8, network:64 or host:8, each with rate=5GB/s, alpha=25us, k=2, "
                 "extra=0-2, cores=8; or a cabling file");
  app.add_option("--steps", o->steps,
                 "with --simulate: list this rank's steps, with their times, at the largest size")
      ->check(CLI::Range(0, 4095));
  app.add_flag("--matrix", o->matrix,
               "print the predicted time of every algorithm, size and collective; run nothing");
  app.add_option("--tune", o->tune,
                 "measure every algorithm on this group, fit the costs, and write a tuning file");
  app.add_flag("--check-selection", o->check_selection,
               "measure every algorithm on this group: is the chosen one within 15 % of the best, "
               "and does twice the size take at least 0.9 times as long?");
  app.add_option("--child", o->parent)->group("");
}

template <class Entry, class Find>
std::string resolve(const std::string& list, std::span<const Entry> all, Find find,
                    const char* what, std::vector<Entry>* out, bool* is_all) {
  std::stringstream names(list);
  std::string name;
  while (std::getline(names, name, ',')) {
    if (name == "all") {
      out->assign(all.begin(), all.end());
      *is_all = true;
      return "";
    }
    const Entry* entry = find(name);
    if (entry == nullptr) {
      std::string known;
      for (const Entry& one : all) known += formatted(" {}", one.name);
      return formatted("there is no {} '{}'; known:{} (or all)", what, name, known);
    }
    out->push_back(*entry);
  }
  return out->empty() ? formatted("the list of {}s is empty", what) : "";
}

// Modes that go over collectives and sizes, all of them if none is named.
bool goes_over_collectives(const Options& o) {
  return !o.simulate.empty() || o.matrix || !o.tune.empty() || o.check_selection;
}

std::string resolve_sizes(const Raw& raw, Options* o) {
  if (goes_over_collectives(*o)) {
    const bool measured = !o->tune.empty() || o->check_selection;
    o->min_bytes = 8;
    o->max_bytes = measured ? 32u << 20 : 1u << 30;
    const uint64_t factor = o->check_selection ? 2 : measured ? 4 : 8;
    if (o->step_factor <= 1 && raw.step_bytes.empty()) o->step_factor = factor;
  }
  const std::array fields = {std::pair{&raw.min_bytes, &o->min_bytes},
                             std::pair{&raw.max_bytes, &o->max_bytes},
                             std::pair{&raw.step_bytes, &o->step_bytes}};
  for (const auto& [text, bytes] : fields) {
    if (!text->empty() && !parse_size(*text, bytes)) {
      return formatted("'{}' is not a size; write 4096, 64K, 32M or 1G", *text);
    }
  }
  const bool one_size = goes_over_collectives(*o) && !raw.min_bytes.empty();
  if (raw.max_bytes.empty())
    o->max_bytes = one_size ? o->min_bytes : std::max(o->max_bytes, o->min_bytes);
  if (raw.min_bytes.empty()) o->min_bytes = std::min(o->min_bytes, o->max_bytes);
  if (o->min_bytes > o->max_bytes) {
    return formatted("the smallest size, {}, is larger than the largest, {}", o->min_bytes,
                     o->max_bytes);
  }
  if (o->step_factor <= 1 && o->step_bytes == 0 && o->min_bytes != o->max_bytes) {
    return "a step of 0 bytes never reaches the largest size; use -i or -f";
  }
  return "";
}

std::string resolve_collective(const Raw& raw, Options* o) {
  constexpr std::string_view suffix = "_perf";
  o->collective = raw.collective;
  if (o->collective.ends_with(suffix)) {
    o->collective.resize(o->collective.size() - suffix.size());
  }
  constexpr std::string_view known[] = {
      "all_reduce", "all_gather", "alltoall",         "broadcast",
      "gather",     "reduce",     "reduce_scatter",   "scatter",
      "scan",       "exscan",     "sendrecv",         "all_gather_v",
      "alltoall_v", "gather_v",   "reduce_scatter_v", "scatter_v"};
  std::string names;
  for (const std::string_view name : known) {
    if (o->collective == name) return "";
    names += formatted(" {}", name);
  }
  if (o->collective.empty() && goes_over_collectives(*o)) return "";
  if (o->collective.empty()) return "say what to run, one of:" + names;
  return formatted("there is no collective '{}'; known:{}", raw.collective, names);
}

std::string resolve_root(const Raw& raw, Options* o) {
  if (raw.root == "all" || raw.root == "-1") {
    o->root = -1;
    return "";
  }
  uint64_t root = 0;
  if (!parse_size(raw.root, &root) || root > 1u << 20) {
    return formatted("'{}' is not a rank; write 0, 1, ... or all", raw.root);
  }
  o->root = static_cast<int>(root);
  return "";
}

// Goes over operators.
bool combines(std::string_view collective) {
  constexpr std::string_view names[] = {"all_reduce",       "reduce", "reduce_scatter",
                                        "reduce_scatter_v", "scan",   "exscan"};
  return std::find(std::begin(names), std::end(names), collective) != std::end(names);
}

// Pairs that were asked for by name must be legal; nothing may be left over of a list with `all`.
std::string check_pairs(const Options& o) {
  if (!combines(o.collective)) return "";
  size_t legal = 0;
  for (const Type& type : o.types) {
    for (const Operator& entry : o.operators) {
      if (is_legal(type, entry.op)) {
        ++legal;
      } else if (!o.all_types && !o.all_operators) {
        return formatted("{} of {} is not defined (see tbccl.h for the legal pairs)", entry.name,
                         type.name);
      }
    }
  }
  return legal > 0 ? "" : "none of these types has any of these operators";
}

std::string resolve_all(const Raw& raw, Options* o) {
  if (o->explain + !o->simulate.empty() + o->matrix + !o->tune.empty() + o->check_selection > 1) {
    return "--explain, --simulate, --matrix, --tune and --check-selection exclude each other";
  }
  if (raw.threads != 1) return "-t: one rank is one process here; use -g for more ranks";
  if (raw.registration != 0 && raw.registration != 1) {
    return formatted("-R {}: 0 (ordinary memory) and 1 (from tbcclMemAlloc) are what there is",
                     raw.registration);
  }
  o->registered = raw.registration == 1;
  o->blocking = raw.blocking != 0;
  o->cpu_time = raw.cpu_time != 0;
  o->timestamps = raw.timestamps != 0;
  o->per_iteration = raw.per_iteration != 0;
  o->unaligned = raw.unaligned != 0;
  if (std::string error = resolve_collective(raw, o); !error.empty()) return error;
  if (std::string error = resolve_sizes(raw, o); !error.empty()) return error;
  if (std::string error = resolve_root(raw, o); !error.empty()) return error;
  if (std::string error =
          resolve(raw.types, all_types(), find_type, "type", &o->types, &o->all_types);
      !error.empty()) {
    return error;
  }
  if (std::string error = resolve(raw.operators, all_operators(), find_operator, "operator",
                                  &o->operators, &o->all_operators);
      !error.empty()) {
    return error;
  }
  if (o->per_iteration && o->skip >= o->iterations) {
    return formatted("-K {} leaves none of {} iterations", o->skip, o->iterations);
  }
  return check_pairs(*o);
}

}  // namespace

bool parse_size(const std::string& text, uint64_t* bytes) {
  constexpr std::string_view units = "KMGT";
  size_t used = 0;
  double value = 0;
  if (text.empty() || (text[0] != '.' && (text[0] < '0' || text[0] > '9'))) return false;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    return false;
  }
  if (used < text.size()) {
    const size_t unit = units.find(static_cast<char>(std::toupper(text[used])));
    if (unit == std::string_view::npos || used + 1 != text.size()) return false;
    for (size_t i = 0; i <= unit; ++i) value *= 1024;
  }
  if (value > 1e15) return false;
  *bytes = static_cast<uint64_t>(value);
  return true;
}

std::vector<uint64_t> Options::sizes() const {
  std::vector<uint64_t> all;
  uint64_t size = min_bytes;
  while (size <= max_bytes) {
    all.push_back(size);
    const uint64_t next = step_factor > 1 ? size * step_factor : size + step_bytes;
    if (next <= size) break;  // zero bytes times a factor
    size = next;
  }
  return all;
}

Parsed parse_options(int argc, char** argv, Options* options) {
  CLI::App app{
      "tbccl-perf: speed and correctness of tbccl's collectives, in the manner of nccl-tests",
      "tbccl-perf"};
  Raw raw;
  std::string error;
  add_options(app, &raw, options);
  for (const Refused& entry : kRefused) {
    app.add_option_function<std::vector<std::string>>(
           entry.names,
           [&error, &entry](const std::vector<std::string>&) {
             error = refusal(entry.names, entry.why);
           })
        ->expected(0, 1)
        ->group("");
  }
  const std::string program = argc > 0 ? argv[0] : "";
  const std::string name = program.substr(program.rfind('/') + 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& failure) {
    return app.exit(failure) == 0 ? Parsed::kExitOk : Parsed::kExitError;
  }
  if (raw.collective.empty() && name.ends_with("_perf")) raw.collective = name;
  if (error.empty()) error = resolve_all(raw, options);
  if (error.empty()) return Parsed::kRun;
  fmt::print(stderr, "tbccl-perf: {} (tbccl-perf --help lists the options)\n", error);
  return Parsed::kExitError;
}

}  // namespace tbccl::perf
