// How a connection comes about: connecting, accepting, the greeting both ways, and the regions that
// come with it.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/formatted.h"
#include "shm/context.h"
#include "shm/socket.h"

namespace tbccl::shm {
namespace {

constexpr uint32_t kHelloTimeoutMs = 5000;
constexpr int kMaxStrangers = 64;  // then the oldest is dropped for the next
constexpr int kAcceptsPerLook = 16;
constexpr uint64_t kPauseNs = 100'000'000;  // of a listener, when descriptors have run out

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

Trunk* Context::connect(const void* handle, size_t handle_bytes, const void* hello,
                        size_t hello_bytes, uint32_t timeout_ms, void* user, std::string* error) {
  std::string target;
  if (!decode_handle(handle, handle_bytes, &target, error)) return nullptr;
  if (hello_bytes > TBCCL_HELLO_MAX_BYTES) {
    *error = formatted("a hello of {} bytes is longer than {}", hello_bytes, TBCCL_HELLO_MAX_BYTES);
    return nullptr;
  }
  std::shared_ptr<SharedRegion> mine;
  if (Status status = SharedRegion::create(kTrunkRegionBytes, &mine); !status.ok()) {
    *error = status.text();
    return nullptr;
  }
  Descriptor socket = make_socket();
  if (!socket.open()) {
    *error = formatted("cannot connect to {}: {}; raise the limit of open files (ulimit -n)",
                       target, std::strerror(errno));
    return nullptr;
  }
  const uint64_t now = now_ns();
  Trunk& trunk = add_trunk(Trunk::State::kConnecting, std::move(socket), now, timeout_ms);
  trunk.user = user;
  trunk.mine = std::move(mine);
  trunk.name = formatted("shm to {}", target);
  trunk.target = std::move(target);
  trunk.greeting = make_greeting(kHelloMagic, board_->id(), trunk.mine->id(), hello, hello_bytes);
  try_connecting(trunk);
  next_look_ = 0;
  wake_ = std::min(wake_, now + 1);
  timer_.arm(wake_, now);
  return &trunk;
}

// No callbacks: failures are told by the next poll.
int Context::try_connecting(Trunk& trunk) {
  const int reason = connect_to(trunk.socket.get(), trunk.target);
  if (try_again(reason) || reason == EINPROGRESS || reason == EALREADY) return 0;
  if (reason != 0) {
    trunk.state = Trunk::State::kDoomed;
    trunk.doom = formatted(
        "{}: nobody listens there: the rank has ended, or is on another host "
        "or in another container (network namespace)",
        std::strerror(reason));
    return 1;
  }
  trunk.peer = identify(trunk.socket.get());
  if (!trunk.peer.ours) {
    trunk.state = Trunk::State::kDoomed;
    trunk.doom = "who listens there runs as another user: start all ranks of a host as one user";
    return 1;
  }
  trunk.name = formatted("shm to process {}", trunk.peer.process);
  trunk.state = Trunk::State::kGreeting;
  update_watch(trunk);
  return 1;
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
      log(1, formatted("a connection cannot be accepted: {}; raise the limit of open files (ulimit "
                       "-n)",
                       std::strerror(errno)));
      listener.paused_until = now + kPauseNs;
      watch(listener.socket.get(), 0);
      break;
    }
    ++accepted;
    const Peer peer = identify(socket.get());
    if (!peer.ours) {
      log(1, formatted("a connection by process {} was refused: it runs as another user; start "
                       "all ranks of a host as one user",
                       peer.process));
      continue;
    }
    if (strangers_ >= kMaxStrangers) drop_oldest_stranger();
    Trunk& trunk = add_trunk(Trunk::State::kStranger, std::move(socket), now, kHelloTimeoutMs);
    trunk.peer = peer;
    trunk.name = formatted("shm to process {}", peer.process);
    update_watch(trunk);
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
      happened = try_connecting(trunk);
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

// Never reads beyond the greeting: what follows is mail. kWrong with *came unset: the stream has
// ended or failed.
Greeting Context::read_greeting(Trunk& trunk, uint32_t magic, GreetingPrefix* prefix, bool* came) {
  auto& inbox = trunk.inbox;
  Greeting greeting = parse_greeting(inbox.data(), inbox.size(), magic, prefix);
  while (greeting == Greeting::kIncomplete) {
    const size_t have = inbox.size();
    const size_t wanted = have < sizeof *prefix ? sizeof *prefix : sizeof *prefix + prefix->content;
    inbox.resize(wanted);
    bool cut = false;
    const ptrdiff_t got = receive_bytes(trunk.socket.get(), inbox.data() + have, wanted - have,
                                        &trunk.received, &cut);
    const int reason = errno;
    inbox.resize(have + static_cast<size_t>(std::max<ptrdiff_t>(got, 0)));
    if (got < 0 && try_again(reason)) return Greeting::kIncomplete;
    if (got <= 0) return Greeting::kWrong;
    *came = true;
    if (cut || trunk.received.size() > kMaxPassed) return Greeting::kWrong;
    greeting = parse_greeting(inbox.data(), inbox.size(), magic, prefix);
  }
  return greeting;
}

int Context::read_hello(Trunk& trunk) {
  GreetingPrefix prefix{};
  bool came = false;
  const Greeting greeting = read_greeting(trunk, kHelloMagic, &prefix, &came);
  if (greeting == Greeting::kIncomplete) return came ? 1 : 0;
  if (greeting == Greeting::kWrong) {
    release(trunk);  // without a word, to whoever it is
    return 1;
  }
  uint8_t reply[TBCCL_HELLO_MAX_BYTES];
  size_t reply_bytes = 0;
  auto* const outside = reinterpret_cast<tbcclTrunk_t*>(&trunk);
  const int accepted =
      callbacks_.incoming(callbacks_.self, outside, trunk.inbox.data() + sizeof prefix,
                          prefix.content, reply, &reply_bytes, &trunk.user);
  if (trunk.closed) return 1;
  if (accepted == 0 || reply_bytes > sizeof reply) {
    release(trunk);
    return 1;
  }
  trunk.state = Trunk::State::kReplying;
  --strangers_;
  Status status = attach(trunk, prefix);
  if (status.ok()) status = SharedRegion::create(kTrunkRegionBytes, &trunk.mine);
  if (!status.ok()) {
    fail(trunk, false, status.text());
    return 1;
  }
  trunk.greeting = make_greeting(kReplyMagic, board_->id(), trunk.mine->id(), reply, reply_bytes);
  return 1 + write_greeting(trunk);
}

int Context::read_reply(Trunk& trunk) {
  GreetingPrefix prefix{};
  bool came = false;
  switch (read_greeting(trunk, kReplyMagic, &prefix, &came)) {
    case Greeting::kIncomplete:
      return came ? 1 : 0;
    case Greeting::kWrong:
      if (came) {
        drop(
            trunk, false,
            "who answers there is not tbccl, or another version of it, or descriptors have run out "
            "(ulimit -n)");
      } else {
        drop(trunk, true, "the peer closed the connection instead of greeting");
      }
      return 1;
    case Greeting::kComplete:
      break;
  }
  if (Status status = attach(trunk, prefix); !status.ok()) {
    fail(trunk, false, status.text());
    return 1;
  }
  const std::vector<uint8_t> inbox = std::move(trunk.inbox);
  return 1 + rise(trunk, inbox.data() + sizeof prefix, prefix.content);
}

// The peer's regions: of another process by their descriptors; of this one as they are, so that
// nothing is mapped twice.
Status Context::attach(Trunk& trunk, const GreetingPrefix& prefix) {
  const std::vector<Descriptor> received = std::move(trunk.received);
  trunk.received.clear();
  trunk.same_process = trunk.peer.self && prefix.token == process_token();
  if (trunk.same_process) {
    trunk.their_board = SharedRegion::find(prefix.board);
    trunk.theirs = SharedRegion::find(prefix.trunk);
    if (trunk.their_board == nullptr || trunk.their_board->bytes() < kBoardRegionBytes ||
        trunk.theirs == nullptr || trunk.theirs->bytes() < kTrunkRegionBytes) {
      return {tbcclRemoteError, "the peer's memory is gone: it closed while it connected"};
    }
    return {};
  }
  if (received.size() != kMaxPassed) {
    return {tbcclRemoteError, "the peer sent no memory along with its greeting"};
  }
  Status status = SharedRegion::attach(received[0], kBoardRegionBytes, &trunk.their_board);
  if (status.ok()) status = SharedRegion::attach(received[1], kTrunkRegionBytes, &trunk.theirs);
  return status;
}

// Writes what is left of the greeting; the accepting end is up when all of it is written.
int Context::write_greeting(Trunk& trunk) {
  int happened = 0;
  if (trunk.greeted < trunk.greeting.size()) {
    const int regions[] = {board_->descriptor().get(), trunk.mine->descriptor().get()};
    const ptrdiff_t written =
        send_bytes(trunk.socket.get(), trunk.greeting.data() + trunk.greeted,
                   trunk.greeting.size() - trunk.greeted, regions, trunk.greeted == 0 ? 2 : 0);
    const int reason = errno;
    if (written < 0 && !try_again(reason) && reason != ETOOMANYREFS) {
      const bool gone = reason == EPIPE || reason == ECONNRESET;
      fail(trunk, gone, std::strerror(reason));
      return 1;
    }
    if (written > 0) {
      trunk.greeted += static_cast<size_t>(written);
      trunk.mine->close_descriptor();
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
  trunk.sender.start(&trunk.my_region(), &trunk.their_region());
  trunk.receiver.start(&trunk.my_region(), &trunk.their_region());
  up_.push_back(&trunk);
  std::vector<uint8_t>().swap(trunk.greeting);
  std::vector<uint8_t>().swap(trunk.inbox);
  update_watch(trunk);
  const int wanted = callbacks_.up(callbacks_.self, trunk.user, reply, reply_bytes);
  if (!trunk.closed && wanted == 0) release(trunk);
  return 1;
}

// Ends a connection that is not in use yet; the link layer hears of those it knows.
void Context::drop(Trunk& trunk, bool gone, const std::string& reason) {
  if (trunk.state == Trunk::State::kStranger) {
    release(trunk);
  } else {
    fail(trunk, gone, reason);
  }
}

}  // namespace tbccl::shm
