#include "tcp/context.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/formatted.h"
#include "tcp/socket.h"

namespace tbccl::tcp {
namespace {

// Listeners and handshakes are looked at this often, not in every poll: each costs system calls.
constexpr uint64_t kLookNs = 1'000'000;
constexpr int kFlushRounds = 16;  // at most the whole queue
constexpr int kDrainReads = 64;

// What a frame that is flushed while its trunk closes reports to.
void ignore_sent(void*, void*, uint64_t) {}

}  // namespace

Context::Context(const tbcclTransportCallbacks_t& callbacks)
    : callbacks_(callbacks), process_(getpid()) {}

Context::~Context() {
  if (getpid() != process_) {
    // The connections are the parent's; and a child may have closed all descriptors by number.
    timer_.abandon();
    for (auto& listener : listeners_) listener.socket.release();
    for (auto& trunk : trunks_) trunk->socket.release();
    return;
  }
  for (auto& trunk : trunks_) release(*trunk);
  for (auto& listener : listeners_) watch(listener.socket.get(), 0);
  watch(timer_.descriptor(), 0);
}

bool Context::open(std::string* error) {
  if (!parse_port_range(std::getenv("TBCCL_PORT_RANGE"), &ports_, error)) return false;
  if (!timer_.open()) {
    *error = formatted("no descriptor for a timer: {}; raise the limit of open files (ulimit -n)",
                       std::strerror(errno));
    return false;
  }
  watch(timer_.descriptor(), 1);
  return true;
}

bool Context::listen(const std::string& text, uint8_t* handle, std::string* error) {
  asio::ip::address address;
  if (!parse_address(text, &address, error)) return false;
  Endpoint bound;
  Descriptor socket = make_listener(address, ports_, &bound, error);
  if (!socket.open()) return false;
  encode_handle(bound, handle);
  listeners_.push_back({std::move(socket), 0});
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
  if (trunk.state != Trunk::State::kUp || !trunk.sender.send(header, payload, length, token)) {
    trunk.sender.ask();
    return TBCCL_AGAIN;
  }
  sent_since_tick_ = true;
  if (!ticking_) {
    const uint64_t now = now_ns();
    ticking_ = true;
    next_tick_ = now + Silence::kTickNs;
    wake_ = std::min(wake_, next_tick_);
    timer_.arm(wake_, now);
  }
  return TBCCL_OK;
}

int Context::poll() {
  const Inside inside(*this);
  int happened = write();
  happened += dry_ && up_.size() > 1 ? read_ready() : read_all();
  const uint64_t now = now_ns();
  if (now >= next_look_) happened += look_around(now);
  dry_ = happened == 0;
  return happened;
}

int Context::read_all() {
  int happened = 0;
  for (size_t i = 0; i < up_.size(); ++i) happened += read(*up_[i]);
  return happened;
}

// While there is nothing, one system call asks for all trunks.
int Context::read_ready() {
  polled_.clear();
  for (const Trunk* trunk : up_) polled_.push_back({trunk->socket.get(), POLLIN, 0});
  if (::poll(polled_.data(), static_cast<nfds_t>(polled_.size()), 0) <= 0) return 0;
  int happened = 0;
  // up_ only grows while callbacks run.
  for (size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents != 0) happened += read(*up_[i]);
  }
  return happened;
}

void Context::flush() {
  const Inside inside(*this);
  write();
}

int Context::write() {
  if (writing_) return 0;  // a callback of sent() flushes: what it has sent goes in this round
  writing_ = true;
  int happened = 0;
  for (size_t i = 0; i < up_.size(); ++i) {
    Trunk& trunk = *up_[i];
    if (trunk.closed || !trunk.sender.waiting()) continue;
    happened += trunk.sender.flush(trunk.socket.get(), callbacks_, trunk.user);
    if (!trunk.closed && trunk.sender.ready()) {
      trunk.sender.answered();
      ++happened;
      callbacks_.writable(callbacks_.self, trunk.user);
    }
    if (!trunk.closed) update_watch(trunk);
  }
  writing_ = false;
  return happened;
}

int Context::read(Trunk& trunk) {
  if (trunk.closed) return 0;
  int happened = 0;
  const auto outcome =
      trunk.receiver.read(trunk.socket.get(), callbacks_, trunk.user, discard_.data(), &happened);
  const int reason = errno;
  if (trunk.closed) return happened + 1;
  switch (outcome) {
    case Receiver::Outcome::kMore:
    case Receiver::Outcome::kStopped:
      break;
    case Receiver::Outcome::kDry:
      // Writing has failed before, and now all that the peer had sent is read.
      if (trunk.sender.error() == 0) break;
      fail(trunk, trunk.sender.error());
      return happened + 1;
    case Receiver::Outcome::kClosed:
      // Behind an error that writing has met first, the stream merely ends.
      if (trunk.sender.error() != 0) {
        fail(trunk, trunk.sender.error());
      } else {
        fail(trunk, true, "the peer closed the connection");
      }
      return happened + 1;
    case Receiver::Outcome::kFailed:
      fail(trunk, reason);
      return happened + 1;
    case Receiver::Outcome::kMalformed:
      fail(trunk, false,
           "what arrived is not a frame; the stream is damaged, or the peer runs another version");
      return happened + 1;
  }
  return happened;
}

// Everything that is not urgent: listeners, handshakes, deadlines, silence.
int Context::look_around(uint64_t now) {
  next_look_ = now + kLookNs;
  int happened = 0;
  for (auto& listener : listeners_) happened += accept(listener, now);
  if (meeting_ > 0) {
    for (size_t i = 0; i < trunks_.size(); ++i) {
      Trunk& trunk = *trunks_[i];
      if (!trunk.closed && trunk.state != Trunk::State::kUp) happened += meet(trunk, now);
    }
  }
  if (ticking_ && now >= next_tick_) happened += check_silence(now);
  arm_timer(now);
  return happened;
}

int Context::check_silence(uint64_t now) {
  int failed = 0;
  bool outstanding = sent_since_tick_;
  sent_since_tick_ = false;
  for (size_t i = 0; i < up_.size(); ++i) {
    Trunk& trunk = *up_[i];
    if (trunk.closed) continue;
    if (trunk.silence.dead(trunk.socket.get(), now)) {
      fail(trunk, false,
           "nothing that was sent has been acknowledged for half a second: the path is down");
      ++failed;
      continue;
    }
    outstanding = outstanding || trunk.silence.outstanding() || trunk.sender.queued();
  }
  ticking_ = outstanding;
  next_tick_ = now + Silence::kTickNs;
  return failed;
}

void Context::arm_timer(uint64_t now) {
  wake_ = ticking_ ? next_tick_ : kNever;
  for (const auto& listener : listeners_) {
    if (listener.paused_until != 0) wake_ = std::min(wake_, listener.paused_until);
  }
  if (meeting_ > 0) {
    for (const auto& trunk : trunks_) {
      if (!trunk->closed && trunk->state != Trunk::State::kUp)
        wake_ = std::min(wake_, trunk->deadline);
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

void Context::fail(Trunk& trunk, int error) {
  fail(trunk, error == ECONNRESET || error == EPIPE, std::strerror(error));
}

// After it no memory of the link layer is touched for this trunk, and no callback made.
void Context::release(Trunk& trunk) {
  if (trunk.closed) return;
  trunk.closed = true;
  trunk.receiver.stop();
  trunk.sender.stop();
  if (trunk.watched != 0) watch(trunk.socket.get(), 0);
  trunk.socket.reset();
  if (trunk.state != Trunk::State::kUp) --meeting_;
  if (trunk.state == Trunk::State::kStranger) --strangers_;
  dirty_ = true;
}

void Context::reap() {
  dirty_ = false;
  std::erase_if(up_, [](const Trunk* trunk) { return trunk->closed; });
  std::erase_if(trunks_, [](const auto& trunk) { return trunk->closed; });
}

void Context::close_trunk(Trunk& trunk, bool flush) {
  if (trunk.closed) return;
  const Inside inside(*this);
  if (flush && trunk.state == Trunk::State::kUp) {
    tbcclTransportCallbacks_t silent = callbacks_;
    silent.sent = ignore_sent;
    for (int i = 0; i < kFlushRounds && trunk.sender.queued(); ++i) {
      trunk.sender.flush(trunk.socket.get(), silent, trunk.user);
    }
    // Closing with unread bytes would reset the connection and throw away what was flushed.
    for (int i = 0; i < kDrainReads; ++i) {
      if (::recv(trunk.socket.get(), discard_.data(), discard_.size(), 0) <= 0) break;
    }
  }
  release(trunk);
}

void Context::update_watch(Trunk& trunk) {
  int events = 1;
  switch (trunk.state) {
    case Trunk::State::kDoomed:
      return;
    case Trunk::State::kConnecting:
      events = 2;
      break;
    case Trunk::State::kGreeting:
    case Trunk::State::kReplying:
      if (trunk.greeted < trunk.greeting.size()) events |= 2;
      break;
    case Trunk::State::kStranger:
      break;
    case Trunk::State::kUp:
      // After a failed write the socket is readable for ever, so reading will come to the end.
      if (trunk.sender.blocked() && trunk.sender.error() == 0) events |= 2;
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

}  // namespace tbccl::tcp
