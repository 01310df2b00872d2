#include "engine/callbacks.h"

#include <string>
#include <system_error>

#include "engine/worker.h"

namespace tbccl::engine {

Status Callbacks::start() {
  const std::lock_guard lock(mutex_);
  if (started_) return {};
  try {
    thread_ = std::thread([this] { main(); });
  } catch (const std::system_error& e) {
    return Status(tbcclSystemError, std::string("cannot start the thread for callbacks: ") +
                                        e.what() + "; raise the limit of processes (ulimit -u)");
  }
  started_ = true;
  return {};
}

void Callbacks::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (!started_) return;
    stop_ = true;
    condition_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Callbacks::post(Request* request) {
  const std::lock_guard lock(mutex_);
  request->callback_result = request->result.code();
  if (++request->callbacks_due > 1) return;  // is in the queue
  request->next_callback = nullptr;
  (back_ != nullptr ? back_->next_callback : front_) = request;
  back_ = request;
  condition_.notify_one();
}

void Callbacks::main() {
  become_library_thread("tbccl-callbacks");
  std::unique_lock lock(mutex_);
  for (;;) {
    condition_.wait(lock, [this] { return front_ != nullptr || stop_; });
    if (front_ == nullptr) return;
    Request* const request = front_;
    // One that has been started again since had completed well.
    const tbcclResult_t result =
        request->callbacks_due > 1 ? tbcclSuccess : request->callback_result;
    if (--request->callbacks_due == 0) {
      front_ = request->next_callback;
      if (front_ == nullptr) back_ = nullptr;
    }
    lock.unlock();
    request->call.callback(request->call.callback_context, result);
    Channel* const channel = request->channel;
    channel->unreference(request);
    channel->outstanding.fetch_sub(1);  // the last touch: the channel may be gone after it
    lock.lock();
  }
}

}  // namespace tbccl::engine
