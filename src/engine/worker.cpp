#include "engine/worker.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/log.h"
#include "engine/home.h"

#ifdef __APPLE__
#include <pthread/qos.h>
#endif

namespace tbccl::engine {
namespace {

// While callers come and go the worker looks this often whether the lane is still in use.
constexpr std::chrono::milliseconds kNap{1};

}  // namespace

void become_library_thread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
#ifdef __APPLE__
  pthread_setname_np(name);
  pthread_set_qos_class_self_np(QOS_CLASS_USER_INTERACTIVE, 0);
#else
  pthread_setname_np(pthread_self(), name);
#endif
}

Status Worker::start(const LaneOptions& options) {
  try {
    thread_ = std::thread([this, options] { main(options); });
  } catch (const std::exception& e) {  // of the system, or no memory
    return Status(tbcclSystemError, std::string("cannot start a worker thread: ") + e.what() +
                                        "; raise the limit of processes (ulimit -u) or memory");
  }
  return {};
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true);
  wake();
  home_.poller.ring();
  thread_.join();
}

void Worker::wake() {
  {
    const std::lock_guard lock(mutex_);
    work_ = true;
    condition_.notify_one();
  }
  call_from_poller();
}

void Worker::call_from_poller() {
  if (polling_.load()) home_.poller.ring();
}

void Worker::note_free() {
  call_from_poller();  // the time it sleeps for was that of the lane before it was used
  if (!parked_.load()) return;
  const std::lock_guard lock(mutex_);
  again_ = true;
  condition_.notify_one();
}

void Worker::main(const LaneOptions& options) {
  become_library_thread("tbccl-worker");
  try {
    if (options.worker_started) options.worker_started();
  } catch (const std::exception& e) {
    log::warn("the worker of {} runs where the system puts it: {}", options.name, e.what());
  }
  do {
    try {
      if (home_.take()) serve();
    } catch (...) {
      // An exception that leaves a thread ends the process; the calls of this lane fail instead.
      if (home_.token.mine()) {
        home_.core.failed();
        home_.leave();
      }
    }
  } while (park());
}

bool Worker::park() {
  std::unique_lock lock(mutex_);
  const auto called = [this] { return work_ || again_ || stop_.load(); };
  while (!stop_.load()) {
    const uint64_t word = home_.token.word();
    napping_.store(true);
    const bool over = !condition_.wait_for(lock, kNap, called);
    napping_.store(false);
    if (over && home_.token.word() == word) {
      // For a whole nap nobody came, or nobody left.
      if (home_.may_take()) {
        home_.left_alone();
        return true;
      }
      parked_.store(true);
      if (home_.token.word() == word) condition_.wait(lock, called);
      parked_.store(false);
    }
    again_ = false;
    if (work_) {
      work_ = false;
      return !stop_.load();
    }
  }
  return false;
}

// With the token; returns without it.
void Worker::serve() {
  Core& core = home_.core;
  Pace pace(0, home_.yield_ns);
  while (!stop_.load() && home_.waiters.wanting.load() == 0) {
    const bool progressed = core.round();
    if (progressed) {
      pace.progressed(core.now());
      continue;
    }
    if (core.unfinished() > 0 && pace.pass(core.now())) continue;
    home_.flush();
    if (core.about_to_sleep()) {
      core.awake();
      pace.progressed(core.now());
      continue;
    }
    const uint64_t time = core.sleep_time(kNever);
    polling_.store(true);
    home_.token.listen();
    bool ready = false;
    if (time > 0 && home_.inbox.empty() && !stop_.load() && home_.waiters.wanting.load() == 0) {
      ready = home_.poller.wait(time);
    }
    polling_.store(false);
    if (!home_.token.resume()) {
      // The caller that took the token may sleep by now, and what was ready, be its affair.
      if (ready && home_.token.state() == Token::State::kSleeping) home_.poller.ring();
      return;
    }
    core.awake();
    pace.progressed(0);
  }
  home_.leave();
}

}  // namespace tbccl::engine
