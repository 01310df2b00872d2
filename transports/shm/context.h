// All listeners and trunks of one lane. Callbacks may call send() and close_trunk() of any trunk: a
// closed trunk is only marked, and freed when the outermost call leaves.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/shared_memory.h"
#include "base/timer.h"
#include "shm/greeting.h"
#include "shm/reference.h"
#include "shm/trunk.h"
#include "tbccl/transport.h"

namespace tbccl::shm {

class Context {
 public:
  explicit Context(const tbcclTransportCallbacks_t& callbacks);
  ~Context();  // in a forked child: frees memory only
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // As in transport.h; on failure *error is set.
  bool open(std::string* error);
  bool listen(std::vector<uint8_t>* handle, std::string* error);
  Trunk* connect(const void* handle, size_t handle_bytes, const void* hello, size_t hello_bytes,
                 uint32_t timeout_ms, void* user, std::string* error);
  tbcclTransportCode_t send(Trunk& trunk, const void* header, const void* payload, uint32_t length,
                            uint64_t token);
  int poll();
  void sleeping(bool asleep);
  void close_trunk(Trunk& trunk);
  tbcclTransportCode_t refer(Trunk& trunk, const void* memory, size_t bytes,
                             tbcclReference_t* reference);
  const void* reach(Trunk& trunk, const tbcclReference_t& reference, size_t bytes);
  bool board(Trunk& trunk, tbcclBoard_t* board);
  void ring(Trunk& trunk);

 private:
  struct Listener {
    Descriptor socket;
    std::string name;
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
  enum class Delivered { kYes, kNotNow, kClosed };

  // context.cpp
  int look_around(uint64_t now);
  int look_at(Trunk& trunk);
  int settle(Trunk& trunk, bool polling);
  void ring_if_asleep(Trunk& trunk);
  void forget_freed();
  bool take(Trunk& trunk, const void* header, const void* payload, uint32_t length, uint64_t token,
            bool* owes);
  void arm_timer(uint64_t now);
  void fail(Trunk& trunk, bool gone, const std::string& reason);
  void release(Trunk& trunk);
  void reap();
  void update_watch(Trunk& trunk);
  void watch(int descriptor, int events);
  void log(int level, const std::string& text);

  // receiving.cpp
  int read(Trunk& trunk, int frames, uint64_t bytes);
  Delivered deliver(Trunk& trunk, const Receiver::Frame& frame);
  const void* resolve(Trunk& trunk, const Reference& reference, uint64_t bytes, Status* why);

  // meeting.cpp
  Trunk& add_trunk(Trunk::State state, Descriptor socket, uint64_t now, uint32_t timeout_ms);
  int accept(Listener& listener, uint64_t now);
  bool drop_oldest_stranger();
  int meet(Trunk& trunk, uint64_t now);
  int try_connecting(Trunk& trunk);
  int read_hello(Trunk& trunk);
  int read_reply(Trunk& trunk);
  Greeting read_greeting(Trunk& trunk, uint32_t magic, GreetingPrefix* prefix, bool* came);
  int write_greeting(Trunk& trunk);
  Status attach(Trunk& trunk, const GreetingPrefix& prefix);
  int rise(Trunk& trunk, const void* reply, size_t reply_bytes);
  void drop(Trunk& trunk, bool gone, const std::string& reason);

  Word& asleep_word() { return reinterpret_cast<BoardRegion*>(board_->data())->asleep; }

  const tbcclTransportCallbacks_t callbacks_;
  const pid_t process_;
  Timer timer_;
  std::shared_ptr<SharedRegion> board_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<Trunk>> trunks_;  // oldest first
  std::vector<Trunk*> up_;                      // those in use
  // What the link layer may still read of peers whose trunks are gone.
  struct Kept {
    std::shared_ptr<const SharedRegion> board;
    Allocations allocations;
  };
  std::vector<Kept> kept_;
  int meeting_ = 0;  // those not yet in use
  int strangers_ = 0;
  int depth_ = 0;
  bool dirty_ = false;
  bool reporting_ = false;  // inside a sent() that send() makes
  bool asleep_ = false;     // between sleeping(1) and sleeping(0)
  bool slept_ = false;      // sockets may hold rings
  uint32_t sleep_ = 0;      // number of the present or last sleep; never 0 while asleep
  uint32_t polls_ = 0;
  uint64_t frees_ = 0;  // shared_frees() when the trunks' announcements were last looked through
  uint64_t next_look_ = 0;
  uint64_t wake_ = UINT64_MAX;  // what the timer is set to
};

}  // namespace tbccl::shm
