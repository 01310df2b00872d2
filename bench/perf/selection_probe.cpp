#include "selection_probe.h"

#include <algorithm>

#include "api/handles.h"
#include "base/clock.h"
#include "selection/overrides.h"
#include "selection/selection.h"
#include "team.h"

namespace tbccl::perf {
namespace {

constexpr int kBatches = 7;
constexpr double kBatchUs = 8'000;  // aimed at
constexpr int kMostCalls = 2'000;   // of a batch

constexpr const CollectiveTest* kTests[] = {&kAllReduce,     &kBroadcast, &kReduce, &kAllGather,
                                            &kReduceScatter, &kAllToAll,  &kGather, &kScatter};

}  // namespace

SelectionProbe::~SelectionProbe() {
  for (const Forced& f : forced_)
    if (f.comm != nullptr) tbcclCommDestroy(f.comm);
  if (base_.comm != nullptr) tbcclCommDestroy(base_.comm);
}

Status SelectionProbe::join() {
  Status status = checked(tbcclCommInitEnv(&base_.comm, nullptr), nullptr, "joining the job");
  if (!status.ok()) return status;
  status = checked(tbcclCommUserRank(base_.comm, &base_.rank), base_.comm, "reading the rank");
  if (!status.ok()) return status;
  status = checked(tbcclCommCount(base_.comm, &base_.ranks), base_.comm, "reading the size");
  if (!status.ok()) return status;
  if (base_.ranks < 2)
    return {tbcclInvalidArgument,
            "one rank has nothing to choose; start several with -g, or join "
            "a job by TBCCL_RANK, TBCCL_SIZE and TBCCL_RENDEZVOUS"};
  status = send_.allocate(options_.max_bytes, 0, options_.registered);
  if (status.ok()) status = recv_.allocate(options_.max_bytes, 0, options_.registered);
  for (const Probed& p : probed(options_))
    for (const std::string& name : measurable(p.operation))
      if (status.ok() && comm_of(name) == nullptr) status = force(name);
  return status;
}

Status SelectionProbe::leave() {
  Status first;
  forced_.push_back({"", base_.comm});
  base_.comm = nullptr;
  for (const Forced& f : forced_) {
    const Status status = checked(tbcclCommDestroy(f.comm), nullptr, "leaving the job");
    if (first.ok()) first = status;
  }
  forced_.clear();
  return first;
}

const schedule::Basis& SelectionProbe::basis() const { return base_.comm->communicator->basis(); }

// The new group meets by an id that goes round in the old one.
Status SelectionProbe::force(const std::string& algorithm) {
  tbcclUniqueId id = {};
  if (base_.rank == 0) {
    Status status = checked(tbcclGetUniqueId(&id), nullptr, "making an id");
    if (!status.ok()) return status;
  }
  Status status = checked(tbcclBroadcast(&id, &id, sizeof id, tbcclUint8, 0, base_.comm, nullptr),
                          base_.comm, "sending the id");
  if (!status.ok()) return status;
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  config.algorithms = algorithm.c_str();
  Forced made{algorithm, nullptr};
  status = checked(tbcclCommInitRankConfig(&made.comm, base_.ranks, id, base_.rank, &config),
                   nullptr, "making the communicator of one algorithm");
  if (status.ok()) forced_.push_back(std::move(made));
  return status;
}

tbcclComm_t SelectionProbe::comm_of(const std::string& algorithm) const {
  if (algorithm.empty()) return base_.comm;
  for (const Forced& f : forced_)
    if (f.algorithm == algorithm) return f.comm;
  return nullptr;
}

Status SelectionProbe::run(const CollectiveTest& test, uint64_t bytes, tbcclComm_t comm, int calls,
                           double* us) const {
  Work work;
  work.job = base_;
  work.job.comm = comm;
  work.send = send_.at(0);
  work.recv = recv_.at(0);
  work.count = test.counts(bytes, sizeof(float), base_.ranks).elements;
  Status status = barrier(work.job);
  const uint64_t start = now_ns();
  for (int i = 0; i < calls && status.ok(); ++i)
    status = checked(test.run(work, nullptr), comm, test.name);
  *us = static_cast<double>(now_ns() - start) / 1000 / calls;
  return status.ok() ? combine(base_, tbcclMax, {us, 1}) : status;
}

Status SelectionProbe::measure(const CollectiveTest& test, uint64_t bytes,
                               std::span<const std::string> algorithms, std::span<double> us) {
  std::vector<int> calls(algorithms.size(), 1);
  std::fill(us.begin(), us.end(), 0);
  for (int batch = -2; batch < kBatches; ++batch)
    for (size_t i = 0; i < algorithms.size(); ++i) {
      double once = 0;
      Status status = run(test, bytes, comm_of(algorithms[i]), calls[i], &once);
      if (!status.ok()) return status;
      // The first batch warms up, the second tells how many calls a batch takes.
      if (batch < 0) {
        calls[i] =
            static_cast<int>(std::clamp<double>(kBatchUs / std::max(once, 0.1), 2, kMostCalls));
      } else {
        us[i] = batch == 0 ? once : std::min(us[i], once);
      }
    }
  return {};
}

std::vector<Probed> probed(const Options& options) {
  std::vector<Probed> all;
  for (const CollectiveTest* test : kTests) {
    tbcclOperation_t operation = tbcclOpAllReduce;
    if (selection::find_operation(test->name, &operation) && measurable(operation).size() > 1 &&
        (options.collective.empty() || options.collective == test->name))
      all.push_back({operation, test});
  }
  return all;
}

std::vector<std::string> measurable(tbcclOperation_t operation) {
  return selection::names(operation);
}

}  // namespace tbccl::perf
