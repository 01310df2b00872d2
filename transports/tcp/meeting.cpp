// How a connection comes about: connecting, accepting, and the greeting both ways.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/formatted.h"
#include "tcp/context.h"
#include "tcp/greeting.h"
#include "tcp/socket.h"

namespace tbccl::tcp {
namespace {

constexpr uint32_t kHelloTimeoutMs = 5000;
constexpr int kMaxStrangers = 64;  // then the oldest is dropped for the next
constexpr int kAcceptsPerLook = 16;
constexpr uint64_t kPauseNs = 100'000'000;  // of a listener, when descriptors have run out

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;
#endif

bool out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Checks what does not depend on the state of the network.
bool check_addresses(const char* local_text, const Endpoint& remote, asio::ip::address* local,
                     bool* has_local, std::string* error) {
  *has_local = local_text != nullptr && *local_text != '\0';
  if (*has_local) {
    if (!parse_address(local_text, local, error)) return false;
    if (local->is_v4() != remote.address().is_v4()) {
      *error = formatted("cannot connect from {} to {}: one is IPv4, the other IPv6", local_text,
                         to_text(remote));
      return false;
    }
  }
  const bool link_local = remote.address().is_v6() && remote.address().to_v6().is_link_local();
  if (link_local && !*has_local) {
    *error = formatted(
        "cannot connect to {}: a link-local address needs a local address that "
        "names the interface, like fe80::1%en5",
        to_text(remote));
    return false;
  }
  return true;
}

}  // namespace

Trunk& Context::add_trunk(Trunk::State state, Descriptor socket, uint64_t now,
                          uint32_t timeout_ms) {
  trunks_.push_back(std::make_unique<Trunk>());
  Trunk& trunk = *trunks_.back();
  trunk.state = state;
  trunk.socket = std::move(socket);
  trunk.timeout_ms = timeout_ms;
  trunk.deadline = now + uint64_t{timeout_ms} * 1'000'000;
  ++meeting_;
  if (state == Trunk::State::kStranger) ++strangers_;
  return trunk;
}

Trunk* Context::connect(const char* local_text, const void* handle, size_t handle_bytes,
                        const void* hello, size_t hello_bytes, uint32_t timeout_ms, void* user,
                        std::string* error) {
  Endpoint remote;
  asio::ip::address local;
  bool has_local = false;
  if (!decode_handle(handle, handle_bytes, &remote, error) ||
      !check_addresses(local_text, remote, &local, &has_local, error)) {
    return nullptr;
  }
  if (hello_bytes > TBCCL_HELLO_MAX_BYTES) {
    *error = formatted("a hello of {} bytes is longer than {}", hello_bytes, TBCCL_HELLO_MAX_BYTES);
    return nullptr;
  }
  const char* failed = nullptr;
  Descriptor socket = start_connecting(remote, has_local ? &local : nullptr, &failed);
  const int reason = socket.open() ? 0 : errno;
  if (out_of_descriptors(reason)) {
    *error = formatted("cannot connect to {}: {}; raise the limit of open files (ulimit -n)",
                       to_text(remote), std::strerror(reason));
    return nullptr;
  }
  const uint64_t now = now_ns();
  Trunk& trunk = add_trunk(Trunk::State::kConnecting, std::move(socket), now, timeout_ms);
  trunk.user = user;
  trunk.name = formatted("tcp {} to {}", has_local ? local_text : "any address", to_text(remote));
  if (reason == 0) {
    trunk.greeting = make_greeting(kHelloMagic, hello, hello_bytes);
    update_watch(trunk);
  } else {
    // The network's state is not the caller's mistake: it is told like any other failure to
    // connect. The descriptor-less trunk wakes the lane by the timer.
    trunk.state = Trunk::State::kDoomed;
    trunk.doom = formatted("{} failed: {}", failed, std::strerror(reason));
    trunk.deadline = now;
  }
  next_look_ = 0;
  wake_ = std::min(wake_, trunk.deadline);
  timer_.arm(wake_, now);
  return &trunk;
}

int Context::accept(Listener& listener, uint64_t now) {
  if (listener.paused_until > now) return 0;
  if (listener.paused_until != 0) {
    listener.paused_until = 0;
    watch(listener.socket.get(), 1);
  }
  int accepted = 0;
  for (int i = 0; i < kAcceptsPerLook; ++i) {
    Descriptor socket = accept_connection(listener.socket.get());
    if (!socket.open()) {
      if (!out_of_descriptors(errno)) break;
      if (drop_oldest_stranger()) continue;
      log(1,
          formatted(
              "tcp: a connection cannot be accepted: {}; raise the limit of open files (ulimit -n)",
              std::strerror(errno)));
      listener.paused_until = now + kPauseNs;
      watch(listener.socket.get(), 0);
      break;
    }
    if (strangers_ >= kMaxStrangers) drop_oldest_stranger();
    set_trunk_options(socket.get());
    Trunk& trunk = add_trunk(Trunk::State::kStranger, std::move(socket), now, kHelloTimeoutMs);
    update_watch(trunk);
    ++accepted;
  }
  return accepted;
}

bool Context::drop_oldest_stranger() {
  for (auto& trunk : trunks_) {
    if (trunk->closed || trunk->state != Trunk::State::kStranger) continue;
    release(*trunk);
    return true;
  }
  return false;
}

// One step of a connection that is not in use yet.
int Context::meet(Trunk& trunk, uint64_t now) {
  int happened = 0;
  switch (trunk.state) {
    case Trunk::State::kDoomed:
      fail(trunk, false, trunk.doom);
      return 1;
    case Trunk::State::kConnecting:
      happened = meet_connecting(trunk);
      break;
    case Trunk::State::kGreeting:
      happened = write_greeting(trunk);
      if (!trunk.closed) happened += read_reply(trunk);
      break;
    case Trunk::State::kStranger:
      happened = read_hello(trunk);
      break;
    case Trunk::State::kReplying:
      happened = write_greeting(trunk);
      break;
    case Trunk::State::kUp:
      break;
  }
  if (trunk.closed || trunk.state == Trunk::State::kUp || now < trunk.deadline) return happened;
  drop(trunk, false, formatted("no connection within {} ms", trunk.timeout_ms));
  return happened + 1;
}

int Context::meet_connecting(Trunk& trunk) {
  int reason = 0;
  const Connecting progress = look_at_connecting(trunk.socket.get(), &reason);
  if (progress == Connecting::kPending) return 0;
  if (progress == Connecting::kFailed) {
    fail(trunk, reason);
    return 1;
  }
  trunk.state = Trunk::State::kGreeting;
  trunk.name = formatted("tcp {} to {}", to_text(local_endpoint(trunk.socket.get())),
                         to_text(remote_endpoint(trunk.socket.get())));
  return 1 + write_greeting(trunk);
}

int Context::read_hello(Trunk& trunk) {
  const auto outcome = trunk.receiver.read_greeting(trunk.socket.get());
  if (outcome == Receiver::Outcome::kDry) return 0;
  size_t bytes = 0;
  const Greeting greeting =
      outcome == Receiver::Outcome::kMore
          ? parse_greeting(trunk.receiver.data(), trunk.receiver.bytes(), kHelloMagic, &bytes)
          : Greeting::kWrong;
  if (greeting == Greeting::kIncomplete) return 1;
  if (greeting == Greeting::kWrong) {
    release(trunk);  // without a word, to whoever it is
    return 1;
  }
  trunk.name = formatted("tcp {} to {}", to_text(local_endpoint(trunk.socket.get())),
                         to_text(remote_endpoint(trunk.socket.get())));
  uint8_t reply[TBCCL_HELLO_MAX_BYTES];
  size_t reply_bytes = 0;
  auto* const outside = reinterpret_cast<tbcclTrunk_t*>(&trunk);
  const int accepted =
      callbacks_.incoming(callbacks_.self, outside, trunk.receiver.data() + kGreetingPrefixBytes,
                          bytes, reply, &reply_bytes, &trunk.user);
  if (trunk.closed) return 1;
  if (accepted == 0 || reply_bytes > sizeof reply) {
    release(trunk);
    return 1;
  }
  trunk.receiver.consume(kGreetingPrefixBytes + bytes);
  trunk.state = Trunk::State::kReplying;
  --strangers_;
  trunk.greeting = make_greeting(kReplyMagic, reply, reply_bytes);
  return 1 + write_greeting(trunk);
}

int Context::read_reply(Trunk& trunk) {
  const auto outcome = trunk.receiver.read_greeting(trunk.socket.get());
  const int reason = errno;
  switch (outcome) {
    case Receiver::Outcome::kDry:
      return 0;
    case Receiver::Outcome::kClosed:
      drop(trunk, true, "the peer closed the connection instead of greeting");
      return 1;
    case Receiver::Outcome::kFailed:
      fail(trunk, reason);
      return 1;
    default:
      break;
  }
  size_t bytes = 0;
  switch (parse_greeting(trunk.receiver.data(), trunk.receiver.bytes(), kReplyMagic, &bytes)) {
    case Greeting::kIncomplete:
      return 1;
    case Greeting::kWrong:
      drop(trunk, false, "who answers there is not tbccl, or another version of it");
      return 1;
    case Greeting::kComplete:
      break;
  }
  // The content stays in the inbox until frames are read.
  const uint8_t* const reply = trunk.receiver.data() + kGreetingPrefixBytes;
  trunk.receiver.consume(kGreetingPrefixBytes + bytes);
  return 1 + rise(trunk, reply, bytes);
}

// Writes what is left of the greeting; the accepting side is up when all of it is written.
int Context::write_greeting(Trunk& trunk) {
  int happened = 0;
  if (trunk.greeted < trunk.greeting.size()) {
    const ptrdiff_t written = ::send(trunk.socket.get(), trunk.greeting.data() + trunk.greeted,
                                     trunk.greeting.size() - trunk.greeted, kSendFlags);
    if (written < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      fail(trunk, errno);
      return 1;
    }
    if (written > 0) {
      trunk.greeted += static_cast<size_t>(written);
      happened = 1;
    }
  }
  if (trunk.greeted == trunk.greeting.size() && trunk.state == Trunk::State::kReplying) {
    return happened + rise(trunk, nullptr, 0);
  }
  update_watch(trunk);
  return happened;
}

// The trunk can be used from now on, also by the callback itself.
int Context::rise(Trunk& trunk, const void* reply, size_t reply_bytes) {
  trunk.state = Trunk::State::kUp;
  --meeting_;
  adapt_to_path(trunk.socket.get());
  up_.push_back(&trunk);
  std::vector<uint8_t>().swap(trunk.greeting);
  update_watch(trunk);
  const int wanted = callbacks_.up(callbacks_.self, trunk.user, reply, reply_bytes);
  if (trunk.closed) return 1;
  if (wanted == 0) {
    release(trunk);
    return 1;
  }
  // Frames may have come right behind the reply.
  return 1 + read(trunk);
}

// Ends a connection that is not in use yet; the link layer hears of those it knows.
void Context::drop(Trunk& trunk, bool gone, const std::string& reason) {
  if (trunk.state == Trunk::State::kStranger) {
    release(trunk);
  } else {
    fail(trunk, gone, reason);
  }
}

}  // namespace tbccl::tcp
