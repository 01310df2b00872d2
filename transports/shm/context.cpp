#include "shm/context.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/formatted.h"
#include "shm/lending.h"
#include "shm/socket.h"

namespace tbccl::shm {
namespace {

// Sockets are looked at this often, and the clock in one of so many polls: a busy poll makes no
// system call.
constexpr uint64_t kLookNs = 1'000'000;
constexpr uint32_t kPollsPerClock = 16;
// How long a closing end waits for a reader of this process, and of another, which may have died.
constexpr uint64_t kLendingNs = 10'000'000'000;
constexpr uint64_t kLendingToOthersNs = 100'000'000;
constexpr uint64_t kRetryNs = 5'000'000;  // of connecting to a listener whose queue is full
// Enough to keep the peer busy, few enough to come back to the other trunks soon.
constexpr int kFramesPerPoll = 32;
constexpr uint64_t kBytesPerPoll = 512u << 10;

}  // namespace

Context::Context(const tbcclTransportCallbacks_t& callbacks)
    : callbacks_(callbacks), process_(getpid()) {}

Context::~Context() {
  if (getpid() != process_) {
    // The connections are the parent's; and a child may have closed all descriptors by number.
    timer_.abandon();
    for (auto& listener : listeners_) listener.socket.release();
    for (auto& trunk : trunks_) {
      trunk->socket.release();
      trunk->mail.abandon();
      trunk->allocations.abandon();
      for (auto& descriptor : trunk->received) descriptor.release();
    }
    for (Kept& kept : kept_) kept.allocations.abandon();
    return;
  }
  for (auto& trunk : trunks_) release(*trunk);
  for (auto& listener : listeners_) {
    watch(listener.socket.get(), 0);
    unlink_name(listener.name);
  }
  watch(timer_.descriptor(), 0);
}

bool Context::open(std::string* error) {
  if (!timer_.open()) {
    *error = formatted("no descriptor for a timer: {}; raise the limit of open files (ulimit -n)",
                       std::strerror(errno));
    return false;
  }
  if (Status status = SharedRegion::create(kBoardRegionBytes, &board_); !status.ok()) {
    *error = status.text();
    return false;
  }
  watch(timer_.descriptor(), 1);
  return true;
}

bool Context::listen(std::vector<uint8_t>* handle, std::string* error) {
  Listener listener;
  listener.name = make_name(error);
  if (listener.name.empty()) return false;
  listener.socket = make_listener(listener.name);
  if (!listener.socket.open()) {
    const int reason = errno;
    *error = formatted(
        "cannot listen at the local socket {}: {}{}", listener.name, std::strerror(reason),
        out_of_descriptors(reason) ? "; raise the limit of open files (ulimit -n)"
                                   : "; is TMPDIR writable, and are unix sockets allowed here?");
    return false;
  }
  *handle = encode_handle(listener.name);
  listeners_.push_back(std::move(listener));
  watch(listeners_.back().socket.get(), 1);
  return true;
}

tbcclTransportCode_t Context::send(Trunk& trunk, const void* header, const void* payload,
                                   uint32_t length, uint64_t token) {
  if (trunk.closed) return TBCCL_FAILED;
  const Inside inside(*this);
  if (length > kMaxPayload) {
    fail(trunk, false, formatted("a frame of {} bytes is longer than max_payload", length));
    return TBCCL_FAILED;
  }
  if (trunk.state != Trunk::State::kUp) {
    trunk.sender.ask(length);
    return TBCCL_AGAIN;
  }
  // A callback that sends from inside sent() is told of the new token later: no recursion.
  bool owes = reporting_;
  for (int attempt = 0; !take(trunk, header, payload, length, token, &owes); ++attempt) {
    // While asleep this end is only rung if it said before its last look that it wants to be.
    if (attempt == (asleep_ ? 2 : 1)) {
      trunk.sender.ask(length);
      return TBCCL_AGAIN;
    }
    if (attempt == 1) trunk.my_region().awaiting.store(1, std::memory_order_seq_cst);
    settle(trunk, false);
    if (trunk.closed) return TBCCL_FAILED;
  }
  ring_if_asleep(trunk);
  if (!owes) {
    reporting_ = true;
    callbacks_.sent(callbacks_.self, trunk.user, token);
    reporting_ = false;
  }
  return TBCCL_OK;
}

// Puts the frame into the region, the payload with it or as a reference.
bool Context::take(Trunk& trunk, const void* header, const void* payload, uint32_t length,
                   uint64_t token, bool* owes) {
  tbcclReference_t reference;
  const bool referred =
      length >= kReferFrom && refer(trunk, payload, length, &reference) == TBCCL_OK;
  if (asleep_ && (referred || *owes)) {
    trunk.my_region().awaiting.store(1, std::memory_order_seq_cst);
  }
  if (!referred) return trunk.sender.send(header, payload, length, token, *owes);
  if (!trunk.sender.send_reference(header, reference, length, token)) return false;
  *owes = true;
  return true;
}

int Context::poll() {
  const Inside inside(*this);
  int happened = 0;
  // Sockets first: a ring that is forgotten here was rung after what is looked for below.
  if (slept_ || meeting_ > 0 || ++polls_ % kPollsPerClock == 0) {
    const uint64_t now = now_ns();
    if (slept_ || now >= next_look_) happened += look_around(now);
  }
  for (size_t i = 0; i < up_.size(); ++i) {
    Trunk& trunk = *up_[i];
    if (!trunk.closed) happened += read(trunk, kFramesPerPoll, kBytesPerPoll);
    if (!trunk.closed && trunk.sender.awaiting()) happened += settle(trunk, true);
  }
  return happened;
}

// What the peer has consumed: reports tokens, and room for who was refused (in poll() alone).
int Context::settle(Trunk& trunk, bool polling) {
  if (!trunk.sender.look()) {
    fail(trunk, false,
         "the peer claims to have read frames that were never sent; its memory is "
         "damaged, or it runs another version");
    return 1;
  }
  int happened = trunk.sender.settle(callbacks_, trunk.user);
  if (polling && !trunk.closed && trunk.sender.ready()) {
    trunk.sender.answered();
    ++happened;
    callbacks_.writable(callbacks_.self, trunk.user);
  }
  return happened;
}

void Context::sleeping(bool asleep) {
  asleep_ = asleep;
  if (!asleep) {
    asleep_word().store(0, std::memory_order_release);
    return;
  }
  for (Trunk* trunk : up_) {
    trunk->my_region().awaiting.store(trunk->sender.awaiting() ? 1 : 0);
  }
  slept_ = true;
  if (++sleep_ == 0) sleep_ = 1;
  // Pairs with ring_if_asleep(): set, then look (the poll that follows).
  asleep_word().exchange(sleep_, std::memory_order_seq_cst);
}

// After something was published by a sequentially consistent store. Once for each sleep: its ring
// stays in the socket until the peer looks, and a peer that looks while asleep begins another
// sleep.
void Context::ring_if_asleep(Trunk& trunk) {
  const uint32_t sleep = trunk.their_asleep().load(std::memory_order_seq_cst);
  if (sleep == 0 || sleep == trunk.rung) return;
  trunk.rung = sleep;
  // Broken: the peer is gone, which looking at the socket finds and says.
  if (trunk.mail.ring(trunk.socket.get()) == Mail::Post::kBroken) next_look_ = 0;
}

void Context::ring(Trunk& trunk) {
  if (trunk.closed || trunk.state != Trunk::State::kUp) return;
  // The link layer may have written its board with an ordinary store.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ring_if_asleep(trunk);
}

// Everything that is not urgent: listeners, sockets, handshakes, deadlines.
int Context::look_around(uint64_t now) {
  next_look_ = now + kLookNs;
  if (!asleep_) slept_ = false;
  int happened = 0;
  for (size_t i = 0; i < up_.size(); ++i) {
    if (!up_[i]->closed) happened += look_at(*up_[i]);
  }
  if (asleep_ && happened > 0) sleeping(true);  // rings of this sleep are spent
  for (auto& listener : listeners_) happened += accept(listener, now);
  if (meeting_ > 0) {
    int met = 0;
    for (size_t i = 0; i < trunks_.size(); ++i) {
      Trunk& trunk = *trunks_[i];
      if (!trunk.closed && trunk.state != Trunk::State::kUp) met += meet(trunk, now);
    }
    if (met > 0) next_look_ = now;  // the next step may be possible already
    happened += met;
  }
  if (frees_ != shared_frees()) forget_freed();
  arm_timer(now);
  return happened;
}

// Peers need not keep mapped what this process has freed. Announcements are taken back when no
// frame can refer to them any more; until then, or while a socket is full, at the next look.
void Context::forget_freed() {
  const uint64_t frees = shared_frees();
  bool all = true;
  for (Trunk* trunk : up_) {
    if (trunk->closed || trunk->announced.empty()) continue;
    if (!trunk->sender.idle()) {
      all = false;
      continue;
    }
    std::erase_if(trunk->announced, [&](uint64_t id) {
      if (exists_shared(id)) return false;
      if (trunk->mail.forget(trunk->socket.get(), id) == Mail::Post::kSent) return true;
      all = false;
      return false;
    });
  }
  if (all) frees_ = frees;
}

// Rings and announcements; and the end, before which everything that the peer published is
// received.
int Context::look_at(Trunk& trunk) {
  bool came = false;
  const auto outcome = trunk.mail.read(trunk.socket.get(), trunk.allocations, &came);
  const int reason = errno;
  if (outcome == Mail::Outcome::kDry) return came ? 1 : 0;
  if (outcome == Mail::Outcome::kClosed || outcome == Mail::Outcome::kFailed) {
    read(trunk, kEntries, UINT64_MAX);
    if (trunk.closed) return 1;
  }
  switch (outcome) {
    case Mail::Outcome::kDry:
      break;
    case Mail::Outcome::kClosed:
      fail(trunk, true, "the peer closed the connection, or its process has ended");
      break;
    case Mail::Outcome::kFailed:
      fail(trunk, reason == ECONNRESET || reason == EPIPE, std::strerror(reason));
      break;
    case Mail::Outcome::kMalformed:
      fail(trunk, false, kMailMalformed);
      break;
    case Mail::Outcome::kCut:
      fail(trunk, false, kDescriptorsCut);
      break;
  }
  return 1;
}

void Context::arm_timer(uint64_t now) {
  wake_ = kNever;
  for (const auto& listener : listeners_) {
    if (listener.paused_until != 0) wake_ = std::min(wake_, listener.paused_until);
  }
  if (meeting_ > 0) {
    for (const auto& trunk : trunks_) {
      if (trunk->closed || trunk->state == Trunk::State::kUp) continue;
      wake_ = std::min(wake_, trunk->deadline);
      if (trunk->state == Trunk::State::kConnecting) wake_ = std::min(wake_, now + kRetryNs);
    }
  }
  timer_.arm(wake_, now);
}

void Context::fail(Trunk& trunk, bool gone, const std::string& reason) {
  const std::string text = formatted("{}: {}", trunk.name, reason);
  void* const user = trunk.user;
  release(trunk);
  callbacks_.down(callbacks_.self, user, gone ? 1 : 0, text.c_str());
}

// After it no memory of the link layer is touched for this trunk, and no callback made. The regions
// stay mapped until no caller is inside: a payload that is being delivered lies in them.
void Context::release(Trunk& trunk) {
  if (trunk.closed) return;
  trunk.closed = true;
  trunk.sender.stop();
  if (trunk.state == Trunk::State::kUp) {
    const uint64_t limit = trunk.same_process ? kLendingNs : kLendingToOthersNs;
    if (!end_lending(trunk.my_region(), trunk.their_region(), limit)) {
      log(1, formatted("{}: the peer has been reading this end's memory for {} ms; its process has "
                       "ended or been stopped there",
                       trunk.name, limit / 1'000'000));
    }
  }
  if (trunk.watched != 0) watch(trunk.socket.get(), 0);
  trunk.socket.reset();
  if (trunk.state != Trunk::State::kUp) --meeting_;
  if (trunk.state == Trunk::State::kStranger) --strangers_;
  dirty_ = true;
}

void Context::reap() {
  dirty_ = false;
  for (Trunk* trunk : up_) {
    if (trunk->closed) kept_.push_back({trunk->their_board, std::move(trunk->allocations)});
  }
  std::erase_if(up_, [](const Trunk* trunk) { return trunk->closed; });
  std::erase_if(trunks_, [](const auto& trunk) { return trunk->closed; });
}

void Context::close_trunk(Trunk& trunk) {
  if (trunk.closed) return;
  const Inside inside(*this);
  release(trunk);
}

void Context::update_watch(Trunk& trunk) {
  int events = 1;
  switch (trunk.state) {
    case Trunk::State::kDoomed:
    case Trunk::State::kConnecting:
      return;  // the timer
    case Trunk::State::kGreeting:
    case Trunk::State::kReplying:
      if (trunk.greeted < trunk.greeting.size()) events |= 2;
      break;
    case Trunk::State::kStranger:
    case Trunk::State::kUp:
      break;
  }
  if (events == trunk.watched) return;
  trunk.watched = events;
  watch(trunk.socket.get(), events);
}

void Context::watch(int descriptor, int events) {
  if (callbacks_.watch != nullptr && descriptor >= 0) {
    callbacks_.watch(callbacks_.self, descriptor, events);
  }
}

void Context::log(int level, const std::string& text) {
  if (callbacks_.log != nullptr) callbacks_.log(callbacks_.self, level, text.c_str());
}

}  // namespace tbccl::shm
