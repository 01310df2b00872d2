// All listeners and trunks of one lane. Callbacks may call send(), redirect() and close_trunk() of
// any trunk: a closed trunk is only marked, and freed when the outermost call leaves.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/timer.h"
#include "tbccl/transport.h"
#include "tcp/address.h"
#include "tcp/trunk.h"

namespace tbccl::tcp {

class Context {
 public:
  explicit Context(const tbcclTransportCallbacks_t& callbacks);
  ~Context();  // in a forked child: frees memory only
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // As in transport.h; on failure *error is set.
  bool open(std::string* error);
  bool listen(const std::string& address, uint8_t* handle, std::string* error);
  Trunk* connect(const char* local_address, const void* handle, size_t handle_bytes,
                 const void* hello, size_t hello_bytes, uint32_t timeout_ms, void* user,
                 std::string* error);
  tbcclTransportCode_t send(Trunk& trunk, const void* header, const void* payload, uint32_t length,
                            uint64_t token);
  int poll();
  void flush();
  void redirect(Trunk& trunk) { trunk.receiver.redirect(); }
  void close_trunk(Trunk& trunk, bool flush);
  void log(int level, const std::string& text);

 private:
  struct Listener {
    Descriptor socket;
    uint64_t paused_until = 0;  // no descriptors left; 0: not paused
  };
  // Counts the calls that are inside; the outermost frees what was closed.
  struct Inside {
    explicit Inside(Context& c) : context(c) { ++context.depth_; }
    ~Inside() {
      if (--context.depth_ == 0 && context.dirty_) context.reap();
    }
    Context& context;
  };

  // context.cpp
  int write();
  int read(Trunk& trunk);
  int read_all();
  int read_ready();
  int look_around(uint64_t now);
  int check_silence(uint64_t now);
  void arm_timer(uint64_t now);
  void fail(Trunk& trunk, bool gone, const std::string& reason);
  void fail(Trunk& trunk, int error);
  void release(Trunk& trunk);
  void reap();
  void update_watch(Trunk& trunk);
  void watch(int descriptor, int events);

  // meeting.cpp
  Trunk& add_trunk(Trunk::State state, Descriptor socket, uint64_t now, uint32_t timeout_ms);
  int accept(Listener& listener, uint64_t now);
  bool drop_oldest_stranger();
  int meet(Trunk& trunk, uint64_t now);
  int meet_connecting(Trunk& trunk);
  int read_hello(Trunk& trunk);
  int read_reply(Trunk& trunk);
  int write_greeting(Trunk& trunk);
  int rise(Trunk& trunk, const void* reply, size_t reply_bytes);
  void drop(Trunk& trunk, bool gone, const std::string& reason);

  const tbcclTransportCallbacks_t callbacks_;
  const pid_t process_;
  PortRange ports_;
  Timer timer_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<Trunk>> trunks_;  // oldest first
  std::vector<Trunk*> up_;                      // those in use
  int meeting_ = 0;                             // those not yet in use
  int strangers_ = 0;
  std::vector<pollfd> polled_;  // spare memory
  bool dry_ = false;            // the last poll found nothing
  int depth_ = 0;
  bool dirty_ = false;
  bool writing_ = false;
  bool ticking_ = false;  // bytes may be outstanding: silence is looked for
  bool sent_since_tick_ = false;
  uint64_t next_look_ = 0;
  uint64_t next_tick_ = 0;
  uint64_t wake_ = UINT64_MAX;  // what the timer is set to
  std::array<uint8_t, kDiscardBytes> discard_;
};

}  // namespace tbccl::tcp
