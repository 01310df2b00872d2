// A group that has one communicator for each algorithm, to measure them side by side.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "buffers.h"
#include "collective.h"
#include "options.h"
#include "schedule/basis.h"

namespace tbccl::perf {

// Float elements, sums, root 0.
class SelectionProbe {
 public:
  explicit SelectionProbe(const Options& options) : options_(options) {}
  ~SelectionProbe();
  SelectionProbe(const SelectionProbe&) = delete;
  SelectionProbe& operator=(const SelectionProbe&) = delete;

  // Joins the job of the environment and makes the communicators. Collective, as all of it.
  Status join();
  Status leave();

  const Job& job() const { return base_; }  // of the library's own choice
  const schedule::Basis& basis() const;     // its basis

  // Microseconds of each of `algorithms` for one size (in their order): of a few batches, taken in
  // turns, the fastest one's average, of the slowest rank. An empty name is the library's choice.
  Status measure(const CollectiveTest& test, uint64_t bytes,
                 std::span<const std::string> algorithms, std::span<double> us);

 private:
  struct Forced {
    std::string algorithm;
    tbcclComm_t comm = nullptr;
  };
  Status force(const std::string& algorithm);
  Status run(const CollectiveTest& test, uint64_t bytes, tbcclComm_t comm, int calls,
             double* us) const;
  tbcclComm_t comm_of(const std::string& algorithm) const;

  const Options& options_;
  Job base_;
  std::vector<Forced> forced_;
  Buffer send_, recv_;
};

// Collectives that are measured, by their operation.
struct Probed {
  tbcclOperation_t operation;
  const CollectiveTest* test;
};
// All of those that have a choice of algorithms, or the one that the command line names.
std::vector<Probed> probed(const Options& options);

// Algorithms that may be measured for an operation on this basis.
std::vector<std::string> measurable(tbcclOperation_t operation);

}  // namespace tbccl::perf
