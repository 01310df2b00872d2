// The life of a trunk's connections: dialling, accepting, loss; and the transports' callbacks.
#include <algorithm>
#include <cstring>

#include "base/formatted.h"
#include "base/log.h"
#include "link/state.h"

namespace tbccl::link {
namespace {

Context& context_of(void* self) { return *static_cast<Context*>(self); }
Trunk& trunk_of(void* user) { return *static_cast<Trunk*>(user); }
Links::State& state_of(void* self) { return *context_of(self).state; }

tbcclTransportCallbacks_t callbacks(Context* context) {
  tbcclTransportCallbacks_t c{};
  c.size = sizeof c;
  c.self = context;
  c.incoming = [](void* self, tbcclTrunk_t* trunk, const void* hello, size_t bytes, void* reply,
                  size_t* reply_bytes, void** user) {
    return state_of(self).incoming(context_of(self), trunk, hello, bytes, reply, reply_bytes, user);
  };
  c.up = [](void* self, void* user, const void* reply, size_t bytes) {
    return state_of(self).trunk_up(trunk_of(user), reply, bytes);
  };
  c.down = [](void* self, void* user, int gone, const char* text) {
    state_of(self).trunk_lost(trunk_of(user), true, gone != 0, text != nullptr ? text : "");
  };
  c.place = [](void* self, void* user, const void* header, uint32_t length) {
    return state_of(self).place(trunk_of(user), header, length);
  };
  c.progress = [](void* self, void* user, const void* header, uint32_t bytes, uint32_t length) {
    state_of(self).progress(trunk_of(user), header, bytes, length);
  };
  c.deliver = [](void* self, void* user, const void* header, const void* payload, uint32_t length) {
    state_of(self).deliver(trunk_of(user), header, payload, length);
  };
  c.arrived = [](void*, void*, uint64_t, uint32_t) {};  // neither posted nor pulled is used
  c.sent = [](void* self, void*, uint64_t token) {
    if (token != 0) state_of(self).sent(*reinterpret_cast<Frame*>(token));
  };
  c.writable = [](void* self, void* user) {
    trunk_of(user).blocked = false;
    state_of(self).pump(*trunk_of(user).peer);
  };
  c.watch = [](void* self, int descriptor, int events) {
    state_of(self).watcher.watch(descriptor, events);
  };
  c.log = [](void* self, int level, const char* text) {
    const auto clamped = static_cast<log::Level>(std::clamp(level, 0, 3));
    if (log::enabled(clamped)) {
      log::line(clamped, "{}: {}", context_of(self).transport->name, text);
    }
  };
  return c;
}

}  // namespace

void Links::State::sent(Frame& frame) {
  frame.held = false;
  frame.trunk->held_bytes -= frame.header.length;
  if (!frame.acked) return;
  Peer& p = *frame.trunk->peer;
  frame.trunk->inflight.remove(&frame);
  release_frame(&frame);
  pump(p);
}

Status Links::State::context_of(const tbcclTransport_t* transport, Context** out) {
  for (auto& context : contexts) {
    if (context->transport == transport) {
      *out = context.get();
      return {};
    }
  }
  if (transport->abi != TBCCL_TRANSPORT_ABI) {
    return {tbcclInternalError,
            formatted("transport {} was built for version {} of the transport interface, this "
                      "library has version {}: use matching builds",
                      transport->name, transport->abi, TBCCL_TRANSPORT_ABI)};
  }
  auto context = std::make_unique<Context>();
  context->state = this;
  context->transport = transport;
  const auto c = callbacks(context.get());
  char error[512] = "";
  if (transport->open(&c, error, sizeof error, &context->handle) != TBCCL_OK) {
    return {tbcclSystemError, formatted("transport {} cannot be used: {}", transport->name, error)};
  }
  context->properties.size = sizeof context->properties;
  transport->properties(context->handle, &context->properties);
  *out = context.get();
  contexts.push_back(std::move(context));
  return {};
}

void Links::State::dial(Trunk& trunk) {
  trunk.redial_at = kNever;
  trunk.state = Trunk::State::kDialing;
  ++trunk.epoch;
  Hello hello;
  hello.session = options.session;
  hello.from = static_cast<uint32_t>(options.rank);
  hello.to = static_cast<uint32_t>(trunk.peer->rank);
  hello.trunk = trunk.spec.id;
  hello.epoch = trunk.epoch;
  std::byte bytes[TBCCL_HELLO_MAX_BYTES];
  const size_t length = encode_hello(hello, options.secret, bytes);
  char error[512] = "";
  const char* local = trunk.spec.local_address.empty() ? nullptr : trunk.spec.local_address.c_str();
  const uint64_t timeout = std::min(kDialTimeout, options.connect_timeout_ns);
  const auto code = trunk.context->transport->connect(
      trunk.context->handle, local, trunk.spec.handle.data(), trunk.spec.handle.size(), bytes,
      length, static_cast<uint32_t>(std::max<uint64_t>(timeout / kMillisecond, 1)), &trunk,
      &trunk.handle, error, sizeof error);
  if (code == TBCCL_OK) return;
  trunk.handle = nullptr;
  trunk.state = Trunk::State::kDown;
  trunk.last_error = error;
  schedule_redial(trunk);
}

// The lower rank dials: at once after a loss, then with growing pauses.
void Links::State::schedule_redial(Trunk& trunk) {
  const Peer& p = *trunk.peer;
  if (options.rank > p.rank || p.failed || p.finished) return;
  if (trunk.was_up && trunk.context->properties.reconnects == 0) return;
  trunk.redial_at = now() + trunk.backoff;
  trunk.backoff = std::clamp(trunk.backoff * 2, kFirstBackoff, kLastBackoff);
  arm(trunk.redial_at);
}

int Links::State::incoming(Context& context, tbcclTrunk_t* handle, const void* bytes, size_t length,
                           void* reply, size_t* reply_bytes, void** user) {
  Hello hello;
  const char* error = decode_hello(bytes, length, options.secret, &hello);
  if (error == nullptr && (hello.reply || hello.session != options.session)) {
    error = "the peer belongs to another job";
  }
  if (error == nullptr && (hello.to != static_cast<uint32_t>(options.rank) ||
                           hello.from >= static_cast<uint32_t>(options.rank))) {
    error = "the peer meant another rank";
  }
  Trunk* trunk = nullptr;
  if (error == nullptr) {
    for (Trunk* candidate : peer(static_cast<int>(hello.from)).trunks) {
      if (candidate->spec.id == hello.trunk && candidate->context == &context) trunk = candidate;
    }
    if (trunk == nullptr) {
      error = "the trunk is not known here (yet)";
    } else if (trunk->peer->failed || trunk->peer->finished) {
      error = "the peer was given up";
    } else if (trunk->changed > 0 && static_cast<int16_t>(hello.epoch - trunk->epoch) <= 0) {
      error = "the connection is older than the present one";
    }
  }
  if (error != nullptr) {
    log::info("a connection over {} was refused: {}", context.transport->name, error);
    return 0;
  }
  if (trunk->handle != nullptr) trunk_lost(*trunk, false, false, "replaced by a new connection");
  trunk->handle = handle;
  trunk->epoch = hello.epoch;
  trunk->state = Trunk::State::kDialing;
  ++trunk->changed;
  std::swap(hello.from, hello.to);
  hello.reply = true;
  *reply_bytes = encode_hello(hello, options.secret, static_cast<std::byte*>(reply));
  *user = trunk;
  return 1;
}

int Links::State::trunk_up(Trunk& trunk, const void* reply, size_t reply_bytes) {
  Peer& p = *trunk.peer;
  if (options.rank < p.rank) {
    Hello hello;
    const char* error = decode_hello(reply, reply_bytes, options.secret, &hello);
    if (error == nullptr && (!hello.reply || hello.session != options.session ||
                             hello.from != static_cast<uint32_t>(p.rank) ||
                             hello.to != static_cast<uint32_t>(options.rank) ||
                             hello.trunk != trunk.spec.id || hello.epoch != trunk.epoch)) {
      error = "the answer to the hello is another one's";
    }
    if (error != nullptr) {
      trunk.handle = nullptr;  // the transport closes it
      trunk.state = Trunk::State::kDown;
      trunk.last_error = error;
      schedule_redial(trunk);
      return 0;
    }
  }
  ++trunk.changed;
  trunk.state = Trunk::State::kUp;
  trunk.blocked = trunk.suspect = false;
  trunk.next_number = 0;
  trunk.backoff = 0;
  trunk.probed_at = 0;
  trunk.heard_at = trunk.acked_at = now();
  trunk.retransmit_backoff = 1;
  trunk.counters.up = true;
  // What was acknowledged on a lost connection may not have reached the peer.
  if (trunk.was_up || p.was_up) p.ack_now = true;
  trunk.was_up = p.was_up = true;
  p.without_since = kNever;
  p.gone = false;
  log::info("trunk {} to rank {} is up", trunk.spec.name, p.rank);
  return 1;
}

void Links::State::trunk_lost(Trunk& trunk, bool closed, bool gone, const std::string& text) {
  if (trunk.handle == nullptr) return;
  Peer& p = *trunk.peer;
  tbcclTrunk_t* handle = trunk.handle;
  const bool was_up = trunk.up();
  trunk.handle = nullptr;
  trunk.state = Trunk::State::kDown;
  trunk.counters.up = false;
  ++trunk.changed;
  // First the transport lets go of all memory, then its frames may be used again.
  if (!closed) trunk.context->transport->close_trunk(trunk.context->handle, handle, 0);
  abandon_incoming(trunk);
  while (Frame* frame = trunk.inflight.front()) {
    frame->held = false;
    if (frame->acked) {
      trunk.inflight.remove(frame);
      release_frame(frame);
    } else {
      requeue(p, *frame);
    }
  }
  trunk.inflight_bytes = trunk.held_bytes = 0;
  trunk.last_error = text;
  p.last_error = text;
  p.ack_now = true;
  p.gone = gone;
  if (was_up) ++trunk.counters.failures;
  const bool any =
      std::any_of(p.trunks.begin(), p.trunks.end(), [](const Trunk* t) { return t->up(); });
  if (!any && p.without_since == kNever) p.without_since = now();
  if (!p.failed && !p.finished) {
    log::info("trunk {} to rank {} is down: {}", trunk.spec.name, p.rank, text);
    arm(now() + kGoneGrace);
  }
  schedule_redial(trunk);
}

void Links::State::protocol_error(Trunk& trunk, const char* text) {
  Peer& p = *trunk.peer;
  log::warn("rank {} sent a frame that makes no sense over trunk {}: {}", p.rank, trunk.spec.name,
            text);
  trunk_lost(trunk, false, false, formatted("a frame made no sense: {}", text));
  if (++p.protocol_errors < kMaxProtocolErrors || p.failed) return;
  fail(p,
       Status(tbcclRemoteError,
              formatted("rank {} keeps sending frames that make no sense over trunk {} ({}): check "
                        "that all ranks run the same version of the library",
                        p.rank, trunk.spec.name, text)),
       true);
}

void Links::State::fail(Peer& p, Status status, bool tell) {
  if (p.failed) return;
  p.failed = true;
  for (Trunk* trunk : p.trunks) {
    trunk_lost(*trunk, false, p.gone, trunk->last_error.empty() ? "given up" : trunk->last_error);
    trunk->redial_at = kNever;
  }
  if (tell && !p.finished) failures.emplace_back(&p, std::move(status));
}

}  // namespace tbccl::link
