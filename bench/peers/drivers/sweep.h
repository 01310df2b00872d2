// The loop that measures every library in the same way.
//
// A figure is the time of a batch of back-to-back calls divided by their number; the median of
// several batches is reported. Rank 0 chooses the length of a batch so that it lasts about
// PEERS_BATCH_MS. Every size is verified before it is measured.
// Environment: PEERS_COLLECTIVE, PEERS_SIZES (bytes, separated by commas), PEERS_BATCHES (5),
// PEERS_BATCH_MS (30).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collectives.h"

namespace peers {

// What a driver provides. Blocking calls; an error ends the program.
struct Library {
  int rank = 0;
  int ranks = 1;
  std::map<std::string, std::function<void(const Call&)>> collectives;
  std::function<void()> barrier;
  std::function<void(int*)> broadcast;  // one int, from rank 0
  std::function<float*(size_t)> allocate = [](size_t bytes) {
    return static_cast<float*>(std::aligned_alloc(4096, (bytes + 8191) / 4096 * 4096));
  };
  std::function<void(float*)> release = [](float* memory) { std::free(memory); };
};

inline size_t setting(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

[[noreturn]] inline void fail(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(1);
}

inline std::vector<size_t> sizes() {
  std::vector<size_t> out;
  const char* text = std::getenv("PEERS_SIZES");
  while (text != nullptr && *text != '\0') {
    char* end = nullptr;
    out.push_back(std::strtoull(text, &end, 10));
    text = *end == ',' ? end + 1 : nullptr;
  }
  if (out.empty()) fail("PEERS_SIZES is to hold sizes in bytes, separated by commas");
  return out;
}

class Sweep {
 public:
  explicit Sweep(const Library& library) : library_(library) {
    const char* name = std::getenv("PEERS_COLLECTIVE");
    collective_ = find(name != nullptr ? name : "all_reduce");
    const auto entry = collective_ != nullptr ? library.collectives.find(collective_->name)
                                              : library.collectives.end();
    if (entry == library.collectives.end()) {
      fail(std::string("no such collective here: ") + (name != nullptr ? name : "all_reduce"));
    }
    call_ = entry->second;
  }

  // Rank 0 prints a line `bytes microseconds` per size.
  void run() {
    const std::vector<size_t> all = sizes();
    const size_t most = count_of(*std::max_element(all.begin(), all.end())) * sizeof(float);
    recv_ = allocate(most);
    send_ = collective_->in_place ? recv_ : allocate(most);
    for (const size_t bytes : all) {
      const size_t count = count_of(bytes);
      verify(count);
      const double time = median_time(count) / collective_->trips;
      if (library_.rank == 0) std::printf("%zu %.3f\n", bytes, time * 1e6);
    }
    if (send_ != recv_) library_.release(send_);
    library_.release(recv_);
  }

 private:
  // Elements of the longer buffer, at least one a block.
  size_t count_of(size_t bytes) const {
    const size_t count = std::max<size_t>(bytes / sizeof(float), 1);
    const auto ranks = static_cast<size_t>(library_.ranks);
    return collective_->blocks ? std::max(count / ranks, size_t{1}) * ranks : count;
  }

  float* allocate(size_t bytes) const {
    float* memory = library_.allocate(bytes);
    if (memory == nullptr) fail("no memory for " + std::to_string(bytes) + " bytes");
    return memory;
  }

  // Ends the program if an element is wrong: no figure of a library that computes nonsense counts.
  void verify(size_t count) const {
    for (int index = 0; index < (collective_->rooted ? library_.ranks : 1); ++index) {
      for (size_t i = 0; i < count; ++i) recv_[i] = kUntouched;
      for (size_t i = 0; i < count; ++i) send_[i] = value(library_.rank, i);
      call_({send_, recv_, count, index});
      for (size_t i = 0; i < count; ++i) {
        const size_t block = count / static_cast<size_t>(library_.ranks);
        const float wanted =
            collective_->expected({library_.rank, library_.ranks, index, i, block});
        if (recv_[i] == wanted) continue;
        fail("rank " + std::to_string(library_.rank) + ": element " + std::to_string(i) + " of " +
             std::to_string(count) + " is " + std::to_string(recv_[i]) + ", should be " +
             std::to_string(wanted));
      }
    }
    // Sums of zeros neither overflow nor become subnormal.
    std::fill(recv_, recv_ + count, 0.0f);
    std::fill(send_, send_ + count, 0.0f);
  }

  double batch_time(size_t count, int length) const {
    using Clock = std::chrono::steady_clock;
    library_.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < length; ++i) call_({send_, recv_, count, i});
    library_.barrier();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Calls that fill a batch if `length` of them took this time; the same number on every rank.
  int fitting(int length, double time) const {
    const double batch = static_cast<double>(setting("PEERS_BATCH_MS", 30)) * 1e-3;
    const double most = std::min(2.0 * length, 1e6);
    int fit = static_cast<int>(std::clamp(length * batch / std::max(time, 1e-9), 1.0, most));
    library_.broadcast(&fit);
    return fit;
  }

  // Trials that grow until one is as long as a batch, which is also the warm-up.
  int batch_length(size_t count) const {
    int length = 1;
    for (int trial = 0; trial < 24; ++trial) {
      const int fit = fitting(length, batch_time(count, length));
      if (fit <= length) return fit;
      length = fit;
    }
    return length;
  }

  double median_time(size_t count) const {
    int length = batch_length(count);
    std::vector<double> times;
    for (size_t batch = 0; batch < std::max<size_t>(setting("PEERS_BATCHES", 5), 1); ++batch) {
      const double time = batch_time(count, length);
      times.push_back(time / length);
      // Fitted anew: a length that was found in a good moment would last for ever in a bad one.
      length = fitting(length, time);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  const Library& library_;
  const Collective* collective_ = nullptr;
  std::function<void(const Call&)> call_;
  float* send_ = nullptr;
  float* recv_ = nullptr;
};

}  // namespace peers
