// A randomised soak: ranks as threads of one process make random operations, and every byte of
// every result is compared. All of it follows from one number, which is printed.
//
//   soak [--seconds S] [--seed N] [--epoch E] [--steps K] [--transport shm|tcp]
//
// The time is filled with epochs: each makes a communicator of 1 to 5 ranks over one transport,
// works through a plan of K steps, and destroys everything. --epoch runs that one alone.
#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/formatted.h"
#include "rank.h"

namespace {

using namespace soak;
using Clock = std::chrono::steady_clock;

constexpr auto kLongestEpoch = std::chrono::seconds(400);

struct Options {
  double seconds = 10;
  uint64_t seed = 1;
  int epoch = -1;
  int steps = 150;
  std::string transport;
};

bool read_options(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const char* const value = argv[i + 1];
    const std::string name = argv[i];
    if (name == "--seconds") {
      options->seconds = std::strtod(value, nullptr);
    } else if (name == "--seed") {
      options->seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--epoch") {
      options->epoch = std::atoi(value);
    } else if (name == "--steps") {
      options->steps = std::atoi(value);
    } else if (name == "--transport") {
      options->transport = value;
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && options->steps > 0;
}

// The ranks of an epoch, and a watch on them: whoever hangs is named.
class Epoch {
 public:
  Epoch(const Options& options, int number) : steps_(options.steps) {
    Draw draw(derived(options.seed, static_cast<uint64_t>(number)));
    story_.seed = options.seed;
    story_.epoch = number;
    ranks_ = draw.chance(5) ? 1 : 2 + draw.number(4);
    const char* const transport =
        options.transport.empty() ? (number % 2 == 0 ? "shm" : "tcp") : options.transport.c_str();
    setenv("TBCCL_TRANSPORT", transport, 1);
    story_.setting = tbccl::formatted("{} ranks, {}", ranks_, transport);
    seed_ = draw.word();
  }

  void run() {
    std::vector<tbcclComm_t> comms(static_cast<size_t>(ranks_), nullptr);
    if (tbcclCommInitAll(comms.data(), ranks_) != tbcclSuccess) {
      fail(story_, 0, -1, std::string("tbcclCommInitAll: ") + tbcclGetLastError(nullptr));
    }
    std::vector<std::unique_ptr<Rank>> all;
    for (int rank = 0; rank < ranks_; ++rank) {
      all.push_back(
          std::make_unique<Rank>(story_, rank, ranks_, comms[static_cast<size_t>(rank)], seed_));
    }
    std::vector<std::thread> threads;
    for (auto& rank : all) {
      threads.emplace_back([this, &rank] {
        rank->run(steps_);
        const std::lock_guard hold(mutex_);
        ++ended_;
        changed_.notify_all();
      });
    }
    watch(all);
    for (std::thread& thread : threads) thread.join();
  }

  const Story& story() const { return story_; }

 private:
  void watch(const std::vector<std::unique_ptr<Rank>>& all) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kLongestEpoch, [&] { return ended_ == ranks_; })) return;
    std::string where;
    for (const auto& rank : all) where += tbccl::formatted(" {}", rank->step());
    fail(story_, 0, all.front()->step(), "hangs; the ranks are at the steps" + where);
  }

  Story story_;
  int ranks_ = 1;
  const int steps_;
  uint64_t seed_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  int ended_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: soak [--seconds S] [--seed N] [--epoch E] [--steps K] [--transport T]\n");
    return 2;
  }
  setenv("TBCCL_TIMEOUT", "120", 1);
  fmt::print("soak: seed {}, {} s\n", options.seed, options.seconds);
  std::fflush(stdout);
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  int epochs = 0;
  for (int number = std::max(options.epoch, 0); epochs == 0 || Clock::now() < end; ++number) {
    Epoch(options, number).run();
    ++epochs;
    if (options.epoch >= 0) break;
  }
  fmt::print("soak: {} epochs of {} steps, every result right\n", epochs, options.steps);
  return 0;
}
