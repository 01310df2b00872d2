// Ranks as threads of one process, made through the public API alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tbccl/tbccl.h"

namespace integration {

// An all-gather between threads, as a caller of tbcclCommInitExchange brings it.
class ThreadExchange {
 public:
  explicit ThreadExchange(int ranks) : ranks_(ranks) {}

  int gather(int rank, const void* send, void* recv, size_t bytes) {
    std::unique_lock lock(mutex_);
    const uint64_t mine = round_;
    if (arrived_ == 0) table_.assign(static_cast<size_t>(ranks_) * bytes, 0);
    std::memcpy(table_.data() + static_cast<size_t>(rank) * bytes, send, bytes);
    if (++arrived_ == ranks_) {
      result_ = table_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return round_ != mine; })) {
      return 1;
    }
    std::memcpy(recv, result_.data(), result_.size());
    return 0;
  }

 private:
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<unsigned char> table_, result_;
  int arrived_ = 0;
  uint64_t round_ = 0;
};

// Runs body(rank) on a thread each and waits for all of them.
inline void on_all_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

// Communicators of one group; destroyed on all ranks at once.
class Team {
 public:
  explicit Team(int ranks) : comms_(static_cast<size_t>(ranks), nullptr) {
    result_ = tbcclCommInitAll(comms_.data(), ranks);
  }
  ~Team() { destroy(); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  tbcclResult_t result() const { return result_; }
  int size() const { return static_cast<int>(comms_.size()); }
  tbcclComm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }

  // The results of tbcclCommDestroy; a second call does nothing.
  std::vector<tbcclResult_t> destroy() {
    std::vector<tbcclResult_t> results(comms_.size(), tbcclSuccess);
    on_all_ranks(size(), [&](int rank) {
      tbcclComm_t& comm = comms_[static_cast<size_t>(rank)];
      if (comm != nullptr) results[static_cast<size_t>(rank)] = tbcclCommDestroy(comm);
      comm = nullptr;
    });
    return results;
  }

 private:
  std::vector<tbcclComm_t> comms_;
  tbcclResult_t result_ = tbcclSuccess;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace integration
