#include "sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/formatted.h"
#include "json.h"
#include "measure.h"
#include "progress.h"
#include "report.h"
#include "team.h"

namespace tbccl::perf {
namespace {

size_t largest_element(const Options& options) {
  size_t bytes = 1;
  for (const Type& type : options.types) bytes = std::max(bytes, type.bytes);
  return bytes;
}

class Sweep {
 public:
  Sweep(const Options& options, const std::vector<std::string>& arguments)
      : options_(options), arguments_(arguments) {
    bench_.options = &options_;
    bench_.collective = &find_collective(options_.collective);
  }

  Status join() {
    tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
    if (options_.timeout >= 0) config.timeoutMs = static_cast<int64_t>(options_.timeout * 1000);
    config.commName = "tbccl-perf";
    Job& job = bench_.job;
    Status status = checked(tbcclCommInitEnv(&job.comm, &config), nullptr, "joining the job");
    if (!status.ok()) return status;
    status = checked(tbcclCommUserRank(job.comm, &job.rank), job.comm, "reading the rank");
    if (!status.ok()) return status;
    return checked(tbcclCommCount(job.comm, &job.ranks), job.comm, "reading the size");
  }

  Status run() {
    Status status = prepare();
    if (!status.ok()) return status;
    const std::vector<Case> cases = all_cases();
    const std::vector<uint64_t> sizes = options_.sizes();
    const auto cycles = static_cast<size_t>(options_.cycles);
    Progress progress(leader(), cases.size() * sizes.size() * cycles);
    for (size_t cycle = 0; cycles == 0 || cycle < cycles; ++cycle) {
      for (const Case& what : cases) {
        if (status = run_case(what, sizes, progress); !status.ok()) return status;
      }
    }
    progress.clear();
    if (leader()) print_footer(options_, summary());
    return {};
  }

  // Says what went wrong, closes the file and the communicator; the exit status.
  int leave(const Status& status) {
    if (!status.ok()) {
      fmt::print(stderr, "tbccl-perf: rank {}: {}\n", rank_text(), status.text());
      if (json_.is_open()) json_.add_error(status.text());
      release_others();
    }
    Status last;
    if (json_.is_open()) last = json_.finish(summary());
    if (bench_.job.comm != nullptr) {
      const Status destroyed =
          checked(tbcclCommDestroy(bench_.job.comm), nullptr, "leaving the job");
      if (last.ok() && status.ok()) last = destroyed;
    }
    if (!last.ok()) fmt::print(stderr, "tbccl-perf: rank {}: {}\n", rank_text(), last.text());
    if (!status.ok() || !last.ok()) return kExitError;
    return wrong_ == 0 ? 0 : kExitWrongData;
  }

 private:
  // An error of this rank alone (memory, a file) must not leave the others waiting for it. Where
  // the communicator is broken they know already, and the first cause is what they are to report.
  void release_others() {
    tbcclResult_t state = tbcclSuccess;
    const tbcclComm_t comm = bench_.job.comm;
    if (comm == nullptr || tbcclCommGetAsyncError(comm, &state) != tbcclSuccess) return;
    if (state == tbcclSuccess) tbcclCommAbort(comm);
  }

  bool leader() const { return bench_.job.rank == 0; }

  std::string rank_text() const {
    if (bench_.job.comm != nullptr) return formatted("{}", bench_.job.rank);
    const char* rank = std::getenv("TBCCL_RANK");
    return rank != nullptr ? rank : "0";
  }

  Status prepare() {
    const Job& job = bench_.job;
    if (bench_.collective->rooted && options_.root >= job.ranks) {
      return {tbcclInvalidArgument,
              formatted("-r {}: there are only {} ranks", options_.root, job.ranks)};
    }
    const size_t skew = options_.unaligned ? largest_element(options_) : 0;
    Status status = bench_.send.allocate(options_.max_bytes, skew, options_.registered);
    if (status.ok()) {
      status = bench_.recv.allocate(options_.max_bytes, skew, options_.registered);
    }
    std::vector<RankInfo> ranks;
    if (status.ok()) status = introduce(job, &ranks);
    if (!status.ok() || !leader()) return status;
    if (!options_.json.empty()) {
      if (status = json_.create(options_.json); !status.ok()) return status;
      json_.begin(options_, arguments_, ranks);
    }
    print_header(options_, *bench_.collective, ranks);
    return {};
  }

  std::vector<Case> all_cases() const {
    std::vector<Operator> operators = options_.operators;
    if (!bench_.collective->reduces) operators.resize(1);
    std::vector<int> roots = {options_.root};
    if (!bench_.collective->rooted) {
      roots = {-1};
    } else if (options_.root < 0) {
      roots.clear();
      for (int root = 0; root < bench_.job.ranks; ++root) roots.push_back(root);
    }
    std::vector<Case> cases;
    for (const Type& type : options_.types) {
      for (const Operator& entry : operators) {
        if (bench_.collective->reduces && !is_legal(type, entry.op)) continue;
        for (int root : roots) cases.push_back({type, entry, entry.code, root});
      }
    }
    return cases;
  }

  Status run_case(const Case& given, const std::vector<uint64_t>& sizes, Progress& progress) {
    Case what = given;
    const tbcclComm_t comm = bench_.job.comm;
    const bool made = bench_.collective->reduces && what.op.op == Op::kMulSum;
    if (made) {
      std::byte scalar[16];
      fill_scalar(what.type, bench_.job.rank, scalar);
      Status status = checked(tbcclRedOpCreatePreMulSum(&what.code, scalar, what.type.code,
                                                        tbcclScalarHostImmediate, comm),
                              comm, "making the pre-multiplied sum");
      if (!status.ok()) return status;
    }
    for (uint64_t bytes : sizes) {
      progress.show(rows_, formatted("{} {}", what.type.name, what.op.name));
      Row row;
      Status status = measure_row(bench_, what, bytes, &row);
      if (!status.ok()) return status;
      progress.clear();
      take(std::move(row));
    }
    if (!made) return {};
    return checked(tbcclRedOpDestroy(what.code, comm), comm, "destroying the pre-multiplied sum");
  }

  void take(Row row) {
    if (options_.timestamps) row.timestamp = time_text();
    for (const Measurement* measurement : {&row.out_of_place, &row.in_place}) {
      if (!measurement->present) continue;
      wrong_ += measurement->wrong;
      busbw_ += measurement->busbw;
      ++measurements_;
    }
    ++rows_;
    if (!leader()) return;
    print_row(options_, row);
    if (json_.is_open()) json_.add(options_, row);
  }

  Summary summary() const {
    return {wrong_, measurements_ == 0 ? 0 : busbw_ / static_cast<double>(measurements_)};
  }

  const Options& options_;
  const std::vector<std::string>& arguments_;
  Bench bench_;
  JsonFile json_;
  uint64_t wrong_ = 0;  // over all ranks
  double busbw_ = 0;
  size_t measurements_ = 0, rows_ = 0;
};

}  // namespace

int run_rank(const Options& options, const std::vector<std::string>& arguments) {
  Sweep sweep(options, arguments);
  Status status = sweep.join();
  if (status.ok()) status = sweep.run();
  return sweep.leave(status);
}

}  // namespace tbccl::perf
