// Ranks as threads of this process, each with a control plane and a record of its events.
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bootstrap/control.h"
#include "support/ports.h"

namespace tbccl::bootstrap::test {

inline uint64_t in_seconds(double s) { return now_ns() + static_cast<uint64_t>(s * 1e9); }

class Events : public ControlEvents {
 public:
  void peer_gone(int rank, const Status& cause) override { add("gone", rank, cause.text()); }
  void peer_finished(int rank) override { add("finished", rank, ""); }
  void peer_failed(int rank, uint32_t comm, const Status& cause) override {
    add("failed" + std::to_string(comm), rank, cause.text());
  }
  PeerRecord record(uint32_t comm) override {
    PeerRecord r;
    r.number = 100 + comm;
    r.fingerprint = 7;
    r.text = "all-reduce of rank " + std::to_string(rank);
    r.waiting_for = {rank + 1};
    return r;
  }

  // How often `kind` came for `rank`, once at least `wanted` have, or after ten seconds.
  int count(const std::string& kind, int of, int wanted = 0) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] {
      return counts_[{kind, of}] >= wanted;
    });
    return counts_[{kind, of}];
  }
  std::string text(const std::string& kind, int of) {
    std::lock_guard lock(mutex_);
    return texts_[{kind, of}];
  }
  int rank = 0;

 private:
  void add(const std::string& kind, int of, const std::string& text) {
    std::lock_guard lock(mutex_);
    ++counts_[{kind, of}];
    texts_[{kind, of}] = text;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::string, int>, int> counts_;
  std::map<std::pair<std::string, int>, std::string> texts_;
};

// The callback of tbcclCommInitExchange among threads.
class Exchange {
 public:
  explicit Exchange(int size) : size_(size), parts_(static_cast<size_t>(size)) {}
  struct Context {
    Exchange* exchange;
    int rank;
    int calls = 0;
  };
  static int call(void* context, const void* send, void* recv, size_t bytes) {
    auto* c = static_cast<Context*>(context);
    ++c->calls;
    return c->exchange->gather(c->rank, send, recv, bytes);
  }

 private:
  int gather(int rank, const void* send, void* recv, size_t bytes) {
    std::unique_lock lock(mutex_);
    parts_[static_cast<size_t>(rank)].assign(static_cast<const char*>(send), bytes);
    const int round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      whole_.clear();
      for (const auto& p : parts_) whole_ += p;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, std::chrono::seconds(30),
                                  [&] { return round_ != round; })) {
      return 1;
    }
    std::memcpy(recv, whole_.data(), whole_.size());
    return 0;
  }
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> parts_;
  std::string whole_;
  int arrived_ = 0, round_ = 0;
};

inline std::string free_address() { return "127.0.0.1:" + std::to_string(free_port()); }

struct Rank {
  Status status;
  std::unique_ptr<Events> events = std::make_unique<Events>();  // outlives the control plane
  std::unique_ptr<Control> control;
};

// Runs `f(rank)` in one thread a rank.
inline void in_parallel(int size, const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) threads.emplace_back(f, r);
  for (auto& t : threads) t.join();
}

struct Job {
  MeetingPoint where;
  Settings settings;
  double seconds = 60;
  std::vector<int> absent;
};

inline MeetingPoint at(const std::string& address) {
  MeetingPoint point;
  point.kind = MeetingPoint::Kind::kAddress;
  point.address = address;
  return point;
}

// All ranks meet. `adjust` may change what one rank is given.
using Adjust = std::function<void(int index, int* rank, int* size, Job* job)>;
inline std::vector<Rank> meet(int size, const Job& job, const Adjust& adjust = nullptr) {
  std::vector<Rank> ranks(static_cast<size_t>(size));
  Exchange exchange(size);
  in_parallel(size, [&](int index) {
    for (const int a : job.absent) {
      if (a == index) return;
    }
    Job mine = job;
    int rank = index, n = size;
    if (adjust) adjust(index, &rank, &n, &mine);
    Exchange::Context context{&exchange, index};
    if (mine.where.kind == MeetingPoint::Kind::kExchange) {
      mine.where.exchange = &Exchange::call;
      mine.where.exchange_context = &context;
    }
    Rank& r = ranks[static_cast<size_t>(index)];
    r.events->rank = rank;
    r.status = Control::meet(rank, n, mine.where, mine.settings, in_seconds(mine.seconds),
                             r.events.get(), &r.control);
  });
  return ranks;
}

// Meets in one of the three forms; the address form takes another port if the first was taken.
inline std::vector<Rank> meet_as(MeetingPoint::Kind kind, int size, const Settings& settings = {}) {
  std::vector<Rank> ranks;
  for (int attempt = 0; attempt < 5; ++attempt) {
    Job job;
    job.settings = settings;
    job.where.kind = kind;
    if (kind == MeetingPoint::Kind::kAddress) job.where.address = free_address();
    if (kind == MeetingPoint::Kind::kUniqueId && !make_unique_id(settings, &job.where.id).ok())
      continue;
    ranks = meet(size, job);
    if (ranks[0].status.code() != tbcclSystemError) break;
  }
  return ranks;
}

inline int entries(const char* directory) {
  int n = 0;
  if (DIR* d = opendir(directory)) {
    while (readdir(d) != nullptr) ++n;
    closedir(d);
  }
  return n;
}

}  // namespace tbccl::bootstrap::test
