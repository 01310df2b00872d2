// What the opaque handles of the C API point to, and how every entry point begins and ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "base/status.h"
#include "comm/communicator.h"
#include "engine/engine.h"
#include "tbccl/tbccl.h"

namespace tbccl::api {

inline constexpr uint32_t kCommMagic = 0x7bcc1c03;
inline constexpr uint32_t kRequestMagic = 0x7bcc14e9;
inline constexpr uint32_t kDeadMagic = 0xdeadbeef;

}  // namespace tbccl::api

// Belongs to its communicator, which reuses it. Not yet submitted (inside a group): `kept`.
struct tbcclRequest {
  uint32_t magic = tbccl::api::kDeadMagic;
  tbcclComm* comm = nullptr;
  tbccl::engine::Request* active = nullptr;
  bool kept = false;                  // by an open group
  bool persistent = false;            // `active` is started again and again
  tbccl::engine::RequestKind kind{};  // of a persistent one
  bool settled = false;               // never reached the engine: `result` is the outcome
  tbccl::Status result;
};

namespace tbccl::api {

// Outlives its communicator in the hands of whoever keeps something for it; destroy empties it.
struct Life {
  std::mutex lock;
  tbcclComm* comm = nullptr;
};

}  // namespace tbccl::api

struct tbcclComm {
  uint32_t magic = tbccl::api::kCommMagic;
  std::unique_ptr<tbccl::comm::Communicator> communicator;
  std::atomic<int> inside{0};  // calls in progress; destroy waits for them
  const std::shared_ptr<tbccl::api::Life> life = std::make_shared<tbccl::api::Life>();
  std::mutex lock;  // of what follows
  std::string last_error;
  std::deque<tbcclRequest> requests;  // all that were ever needed at once
  std::deque<tbcclRequest*> free_requests;
};

namespace tbccl::api {

// Remembers `status` for tbcclGetLastError, of the communicator (may be NULL) and this thread.
tbcclResult_t report(tbcclComm_t comm, const Status& status);

// A call's presence inside a communicator. Not ok: NULL, not a communicator, or a forked child.
class Entry {
 public:
  explicit Entry(tbcclComm_t comm);
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  const Status& status() const { return status_; }

 private:
  tbcclComm_t comm_ = nullptr;
  Status status_;
};

// A handle from the communicator's stock, and back.
tbcclRequest_t take_request(tbcclComm_t comm);
void give_request(tbcclRequest_t request);
Status check_request(tbcclRequest_t request);

// Nothing thrown inside the library crosses the C boundary.
template <class F>
tbcclResult_t guarded(tbcclComm_t comm, F&& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return report(comm, Status(tbcclSystemError, "out of memory"));
  } catch (const std::exception& e) {
    return report(comm, Status(tbcclInternalError, e.what()));
  } catch (...) {
    return report(comm, Status(tbcclInternalError, "an exception of unknown type"));
  }
}

}  // namespace tbccl::api
