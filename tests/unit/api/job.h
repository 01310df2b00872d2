// A job of n ranks inside this process, for tests of the public API.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tbccl/tbccl.h"
#include "unit/catch.h"

// What a rank's thread found; Catch's assertions belong to the main thread.
struct Findings {
  std::vector<std::string> failures;
  void expect(bool good, const std::string& what) {
    if (!good) failures.push_back(what);
  }
};

class Job {
 public:
  explicit Job(int size) : comms_(static_cast<size_t>(size), nullptr) {
    const tbcclResult_t result = tbcclCommInitAll(comms_.data(), size);
    INFO(tbcclGetLastError(nullptr));
    REQUIRE(result == tbcclSuccess);
  }
  ~Job() {
    for (tbcclComm_t comm : comms_) {
      if (comm != nullptr) tbcclCommDestroy(comm);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int size() const { return static_cast<int>(comms_.size()); }
  tbcclComm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }

  void leave(int rank) {
    tbcclCommDestroy(comms_[static_cast<size_t>(rank)]);
    comms_[static_cast<size_t>(rank)] = nullptr;
  }

  // f(rank, comm, findings) on a thread per rank; all findings are required to be empty.
  void each(const std::function<void(int, tbcclComm_t, Findings&)>& f) {
    std::vector<Findings> findings(comms_.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back(
          [&, rank] { f(rank, (*this)[rank], findings[static_cast<size_t>(rank)]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < size(); ++rank) {
      for (const std::string& failure : findings[static_cast<size_t>(rank)].failures) {
        FAIL_CHECK("rank " << rank << ": " << failure);
      }
    }
    REQUIRE(true);
  }

 private:
  std::vector<tbcclComm_t> comms_;
};
