// The thread that serves a lane when no caller does; see "Waiting and working" in README.md.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "engine/engine.h"

namespace tbccl::engine {

class Home;

class Worker {
 public:
  explicit Worker(Home& home) : home_(home) {}
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Status start(const LaneOptions& options);
  void stop();

  // There is something to do and nobody holds the token.
  void wake();
  // The token has become free and nothing is outstanding: nap again if parked for good.
  void note_free();
  // It will look at the lane within a moment, unless somebody else uses it by then.
  bool napping() const { return napping_.load(); }

 private:
  void main(const LaneOptions& options);
  // A caller that took the token rang for the worker to leave the poller, but may have slept there
  // itself and answered the bell in the worker's place.
  void call_from_poller();
  void serve();
  // Sleeps until there is something to do (true), or stop().
  bool park();

  Home& home_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> parked_{false};
  std::atomic<bool> napping_{false};
  std::atomic<bool> polling_{false};  // in the poller, or about to be
  std::mutex mutex_;
  std::condition_variable condition_;
  bool work_ = false;   // wake() was called
  bool again_ = false;  // note_free() was called
};

// Names the calling thread, keeps signals away from it, asks for a fast core where there are two
// kinds.
void become_library_thread(const char* name);

}  // namespace tbccl::engine
