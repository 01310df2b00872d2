#include "bootstrap/service.h"

#include <pthread.h>
#include <signal.h>

#include <asio/executor_work_guard.hpp>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <system_error>

#include "base/formatted.h"
#include "base/log.h"
#include "topology/placement.h"

namespace tbccl::bootstrap {
namespace {

// Never destroyed: Controls that outlive main() still need it.
struct Registry {
  std::mutex mutex;
  std::weak_ptr<Service> current;
};

std::atomic<bool> in_forked_child{false};

Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

// The thread inherits a full mask, so that the program's signals go to its own threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

bool Service::forked() { return in_forked_child.load(std::memory_order_relaxed); }

Status Service::acquire(std::shared_ptr<Service>* out) {
  if (forked()) {
    return Status(
        tbcclInvalidUsage,
        "tbccl was used in the parent before fork() and cannot be used in the child; start "
        "the child with exec, or initialise tbccl after the fork");
  }
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  *out = r.current.lock();
  if (*out != nullptr) return {};
  static const bool once = [] {
    pthread_atfork(nullptr, nullptr,
                   [] { in_forked_child.store(true, std::memory_order_relaxed); });
    std::atexit(&Service::at_exit);
    return true;
  }();
  (void)once;
  try {
    std::unique_ptr<Service> service(new Service);
    const BlockedSignals blocked;
    // The thread may look at thread_ (on_thread) only in handlers, which are posted later.
    service->thread_ = std::thread([s = service.get()] { s->loop(); });
    *out = std::shared_ptr<Service>(service.release(), &Service::release);
  } catch (const std::exception& e) {
    return Status(tbcclSystemError,
                  formatted("the control thread could not be started: {}", e.what()));
  }
  r.current = *out;
  return {};
}

void Service::loop() {
  topology::name_thread("tbccl-control");
  const auto work = asio::make_work_guard(io_);
  // A handler that throws (no memory) must not end the process; the next one is served.
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception& e) {
      log::error("the control thread went on after an exception: {}", e.what());
    }
  }
}

void Service::run(const std::function<void()>& f) {
  if (ended_ || on_thread()) return f();
  Outcome<std::exception_ptr> done;
  post([&] {
    std::exception_ptr thrown;
    try {
      f();
    } catch (...) {
      thrown = std::current_exception();  // the caller's to deal with; it must not wait for ever
    }
    done.set(std::move(thrown));
  });
  if (const std::exception_ptr thrown = done.wait(); thrown != nullptr) {
    std::rethrow_exception(thrown);
  }
}

void Service::stop() {
  io_.stop();
  thread_.join();
}

void Service::release(Service* service) {
  if (forked()) return;  // the thread and its descriptors are the parent's
  if (service->ended_) {
    delete service;
  } else if (service->on_thread()) {
    // Only a root that nobody of this process joined ends here. The thread cannot wait for
    // itself, so a short-lived one does.
    std::thread([service] {
      service->stop();
      delete service;
    }).detach();
  } else {
    service->stop();
    delete service;
  }
}

void Service::at_exit() {
  if (forked()) return;
  // Without the registry's lock: what is closed may be the last user of the service on its thread,
  // which would wait for that lock.
  const std::shared_ptr<Service> service = [] {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    return r.current.lock();
  }();
  if (service == nullptr || service->on_thread()) return;
  service->close_all();
  service->stop();
  service->ended_ = true;
}

// What was announced before the process ended must reach the others also if nobody destroyed the
// communicator.
void Service::close_all() {
  const auto closed = std::make_shared<Outcome<bool>>();
  try {
    run([&] {
      // Called when the last one of those that hold it lets go.
      const std::shared_ptr<void> last(nullptr, [closed](void*) { closed->set(true); });
      const auto closers = std::move(closers_);
      closers_.clear();
      for (const auto& [owner, close] : closers) close([last] {});
    });
    closed->wait();
  } catch (const std::exception& e) {
    log::error("the control plane was not closed in order: {}", e.what());
  }
}

}  // namespace tbccl::bootstrap
