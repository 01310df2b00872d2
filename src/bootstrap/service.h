// The control thread: one a process, started with the first user and ended with the last. All
// sockets, timers and state of bootstrap/ are touched on it alone; other threads hand it work.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace tbccl::bootstrap {

class Service {
 public:
  // The running service, or a new one. SystemError if no thread can be made, InvalidUsage in a
  // forked child. When the last pointer goes, the thread ends (and has ended when the release
  // returns, unless it was the thread itself that released it).
  static Status acquire(std::shared_ptr<Service>* out);

  asio::io_context& io() { return io_; }
  bool on_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // Runs `f` on the thread, later.
  void post(std::function<void()> f) { asio::post(io_, std::move(f)); }
  // Runs `f` on the thread and waits for it (at once if this is the thread). What `f` throws (no
  // memory) is thrown to the caller.
  void run(const std::function<void()>& f);

  // False on the thread itself, and when there is none any more.
  bool serves_others() const { return !ended_ && !on_thread(); }

  // What is to be ended in order when the process exits and nobody has ended it: `close` calls its
  // argument once, soon. On the thread.
  using Closer = std::function<void(std::function<void()> done)>;
  void add_closer(const void* owner, Closer close) { closers_[owner] = std::move(close); }
  void remove_closer(const void* owner) { closers_.erase(owner); }

  // True in a child of the process that used the control thread: it does not exist there, and
  // nothing of bootstrap/ may be touched.
  static bool forked();

 private:
  Service() = default;
  static void release(Service* service);
  static void at_exit();
  void loop();
  void stop();
  void close_all();

  asio::io_context io_{1};
  std::thread thread_;
  std::map<const void*, Closer> closers_;
  std::atomic<bool> ended_{
      false};  // the process is exiting: no thread any more, run() works in place
};

// A value that one thread waits for and the control thread sets once.
template <class T>
class Outcome {
 public:
  void set(T value) {
    std::lock_guard lock(mutex_);
    if (set_) return;
    value_ = std::move(value);
    set_ = true;
    changed_.notify_all();
  }
  T wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
    return std::move(value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
  T value_{};
};

}  // namespace tbccl::bootstrap
