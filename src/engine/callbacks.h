// Runs completion callbacks, in the order of completion, on a thread that holds no token.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "engine/channel.h"

namespace tbccl::engine {

class Callbacks {
 public:
  Callbacks() = default;
  ~Callbacks() { stop(); }
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // Before the first request with a callback is submitted.
  Status start();
  // Runs what is left, then ends the thread.
  void stop();
  // The request is complete; its callback's reference is given up after the call.
  void post(Request* request);

 private:
  void main();

  std::mutex mutex_;
  std::condition_variable condition_;
  Request* front_ = nullptr;  // by Request::next_callback
  Request* back_ = nullptr;
  bool started_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tbccl::engine
