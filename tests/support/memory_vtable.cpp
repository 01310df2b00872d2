// The transport's functions, as the links call them.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "support/memory_core.h"

namespace tbccl::testing {
namespace {

constexpr size_t kNetworks = 16;
std::array<MemoryNetwork::Core*, kNetworks> networks{};
std::mutex networks_mutex;

MemoryNetwork::Core& core_of(tbcclTransportContext_t* context) { return *context->core; }

tbcclTransportCode_t open_in(size_t slot, const tbcclTransportCallbacks_t* callbacks, char* error,
                             size_t error_bytes, tbcclTransportContext_t** out) {
  MemoryNetwork::Core* core = nullptr;
  {
    std::lock_guard<std::mutex> lock(networks_mutex);
    core = networks[slot];
  }
  auto context = std::make_unique<tbcclTransportContext>();
  context->core = core;
  context->callbacks = *callbacks;
  if (core->options.descriptors) {
    if (::pipe(context->wake) != 0) {
      std::snprintf(error, error_bytes, "the memory transport could not make a pipe");
      return TBCCL_FAILED;
    }
    for (int descriptor : context->wake) {
      ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
      ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    }
    callbacks->watch(callbacks->self, context->wake[0], 1);
  }
  std::lock_guard<std::mutex> lock(core->mutex);
  context->number = core->next_context++;
  core->contexts.push_back(context.get());
  *out = context.release();
  return TBCCL_OK;
}

void properties(tbcclTransportContext_t* context, tbcclTransportProperties_t* p) {
  const MemoryOptions& o = core_of(context).options;
  *p = {};
  p->size = sizeof *p;
  p->shapes = o.slotted ? TBCCL_SHAPE_SLOTTED : TBCCL_SHAPE_PLACED;
  p->max_payload = o.max_payload;
  p->best_payload = o.best_payload;
  p->reliable = o.reliable;
  p->ordered = o.ordered;
  p->has_descriptors = o.descriptors;
  p->reconnects = 1;
}

tbcclTransportCode_t listen(tbcclTransportContext_t* context, const char*, void* handle,
                            size_t* handle_bytes, char*, size_t) {
  std::lock_guard<std::mutex> lock(core_of(context).mutex);
  context->listening = true;
  std::memcpy(handle, &context->number, sizeof context->number);
  *handle_bytes = sizeof context->number;
  return TBCCL_OK;
}

tbcclTransportCode_t connect(tbcclTransportContext_t* context, const char*, const void* handle,
                             size_t handle_bytes, const void* hello, size_t hello_bytes, uint32_t,
                             void* user, tbcclTrunk_t** trunk, char* error, size_t error_bytes) {
  MemoryNetwork::Core& core = core_of(context);
  std::lock_guard<std::mutex> lock(core.mutex);
  uint32_t number = 0;
  if (handle_bytes != sizeof number) {
    std::snprintf(error, error_bytes, "the handle does not belong to the memory transport");
    return TBCCL_FAILED;
  }
  std::memcpy(&number, handle, sizeof number);
  auto c = std::make_unique<Connection>();
  c->number = static_cast<int>(core.all.size());
  const auto* bytes = static_cast<const std::byte*>(hello);
  c->hello.assign(bytes, bytes + hello_bytes);
  c->ends[0] = {c.get(), 0, context, user, true};
  *trunk = &c->ends[0];
  auto it = std::find_if(core.contexts.begin(), core.contexts.end(),
                         [&](auto* other) { return other->number == number && other->listening; });
  if (core.refuse || it == core.contexts.end()) {
    const bool gone = core.refuse ? core.refuse_gone : true;
    c->awaits_accept = false;
    core.push(context, {Event::Kind::kDown, c.get(), 0, gone, "connection refused"});
  } else {
    c->ends[1] = {c.get(), 1, *it, nullptr, false};
    core.wake(*it);
  }
  core.all.push_back(std::move(c));
  return TBCCL_OK;
}

tbcclTransportCode_t send(tbcclTransportContext_t* context, tbcclTrunk_t* trunk, const void* header,
                          const void* payload, uint32_t length, uint64_t token) {
  MemoryNetwork::Core& core = core_of(context);
  std::unique_lock<std::mutex> lock(core.mutex);
  Connection& c = *trunk->connection;
  auto& queue = c.queues[static_cast<size_t>(trunk->side)];
  if (queue.size() >= core.options.queue_frames) {
    trunk->blocked = true;
    return TBCCL_AGAIN;
  }
  Fault fault = Fault::kNone;
  if (core.fault) fault = core.fault(c.number, trunk->side, header);
  Frame frame;
  std::memcpy(frame.header.data(), header, frame.header.size());
  frame.source = static_cast<const std::byte*>(payload);
  frame.length = length;
  frame.token = token;
  if (fault == Fault::kKill) {
    core.end(c, 1 - trunk->side, 0, "killed by the test");
    trunk->open = false;
    lock.unlock();
    context->callbacks.down(context->callbacks.self, trunk->user, 0, "killed by the test");
    return TBCCL_FAILED;
  }
  if (!core.options.manual) core.move_bytes(c, trunk->side, frame, length);
  if (c.dead && core.options.manual) core.move_bytes(c, trunk->side, frame, length);
  if (fault == Fault::kLose || c.dead) return TBCCL_OK;  // sent() has been queued
  if (fault == Fault::kDuplicate) queue.push_back(frame);
  const tbcclTrunk& receiver = c.ends[static_cast<size_t>(1 - trunk->side)];
  if (fault == Fault::kReorder && (queue.size() > 1 || (queue.size() == 1 && !receiver.placed))) {
    queue.insert(queue.end() - 1, std::move(frame));
  } else {
    queue.push_back(std::move(frame));
  }
  core.wake(c.ends[static_cast<size_t>(1 - trunk->side)].context);
  return TBCCL_OK;
}

void close_locked(MemoryNetwork::Core& core, tbcclTrunk_t* trunk, bool flush) {
  Connection& c = *trunk->connection;
  auto& mine = c.queues[static_cast<size_t>(trunk->side)];
  if (flush) {
    for (Frame& frame : mine) {
      frame.owes_sent = false;
      core.move_bytes(c, trunk->side, frame, frame.length - frame.moved);
    }
  } else {
    // What has travelled as a whole arrives; the rest is cut off where it is.
    while (!mine.empty() && !mine.back().header_moved) mine.pop_back();
  }
  for (Frame& frame : mine) {
    frame.source = nullptr;
    frame.owes_sent = false;
  }
  trunk->open = false;
  auto& events = trunk->context->events;
  std::erase_if(events,
                [&](const Event& e) { return e.connection == &c && e.side == trunk->side; });
  const int other = 1 - trunk->side;
  if (c.ends[static_cast<size_t>(other)].open) {
    c.closing[static_cast<size_t>(other)] = true;
    c.closing_gone[static_cast<size_t>(other)] = 1;
    core.wake(c.ends[static_cast<size_t>(other)].context);
  }
  if (c.awaits_accept) c.awaits_accept = false;
}

void close_trunk(tbcclTransportContext_t* context, tbcclTrunk_t* trunk, int flush) {
  std::lock_guard<std::mutex> lock(core_of(context).mutex);
  if (trunk->open) close_locked(core_of(context), trunk, flush != 0);
}

void redirect(tbcclTransportContext_t* context, tbcclTrunk_t* trunk) {
  std::lock_guard<std::mutex> lock(core_of(context).mutex);
  trunk->discard = true;
  trunk->destination = nullptr;
}

void accept_pending(MemoryNetwork::Core& core, tbcclTransportContext_t* context, int* happened) {
  for (size_t i = 0;; ++i) {
    Connection* c = nullptr;
    {
      std::lock_guard<std::mutex> lock(core.mutex);
      while (i < core.all.size() &&
             !(core.all[i]->awaits_accept && core.all[i]->ends[1].context == context)) {
        ++i;
      }
      if (i >= core.all.size()) return;
      c = core.all[i].get();
      c->awaits_accept = false;
      c->ends[1].open = true;
    }
    ++*happened;
    std::vector<std::byte> reply(TBCCL_HELLO_MAX_BYTES);
    size_t reply_bytes = 0;
    void* user = nullptr;
    const auto& cb = context->callbacks;
    const int accepted = cb.incoming(cb.self, &c->ends[1], c->hello.data(), c->hello.size(),
                                     reply.data(), &reply_bytes, &user);
    reply.resize(reply_bytes);
    bool usable = false;
    {
      std::lock_guard<std::mutex> lock(core.mutex);
      c->ends[1].user = user;
      if (accepted && c->ends[0].open) {
        c->established = usable = true;
        core.push(c->ends[0].context, {Event::Kind::kUp, c, 0, 0, "", 0, std::move(reply)});
      } else if (c->ends[0].open) {
        c->ends[1].open = false;
        core.push(c->ends[0].context, {Event::Kind::kDown, c, 0, 1, "refused by the peer"});
      } else if (!accepted) {
        c->ends[1].open = false;
      }
    }
    if (usable && !cb.up(cb.self, user, nullptr, 0)) close_trunk(context, &c->ends[1], 0);
    if (accepted && !usable) {
      {
        std::lock_guard<std::mutex> lock(core.mutex);
        c->ends[1].open = false;
      }
      cb.down(cb.self, user, 1, "the peer closed the connection while it was accepted");
    }
  }
}

void run_event(tbcclTransportContext_t* context, Event& event) {
  const auto& cb = context->callbacks;
  tbcclTrunk& end = event.connection->ends[static_cast<size_t>(event.side)];
  switch (event.kind) {
    case Event::Kind::kUp:
      if (!cb.up(cb.self, end.user, event.reply.data(), event.reply.size()))
        close_trunk(context, &end, 0);
      break;
    case Event::Kind::kDown: {
      {
        std::lock_guard<std::mutex> lock(context->core->mutex);
        end.open = false;
        std::erase_if(context->events, [&](const Event& e) {  // sent() of what came after the end
          return e.connection == event.connection && e.side == event.side;
        });
      }
      cb.down(cb.self, end.user, event.gone, event.text.c_str());
      break;
    }
    case Event::Kind::kSent:
      cb.sent(cb.self, end.user, event.token);
      break;
    case Event::Kind::kWritable:
      cb.writable(cb.self, end.user);
      break;
  }
}

int poll(tbcclTransportContext_t* context) {
  MemoryNetwork::Core& core = core_of(context);
  int happened = 0;
  if (context->wake[0] >= 0) {
    char drain[256];
    while (::read(context->wake[0], drain, sizeof drain) > 0) {
    }
  }
  accept_pending(core, context, &happened);
  for (;;) {
    Event event{};
    {
      std::lock_guard<std::mutex> lock(core.mutex);
      if (context->events.empty()) break;
      event = std::move(context->events.front());
      context->events.pop_front();
    }
    run_event(context, event);
    ++happened;
  }
  for (size_t i = 0;; ++i) {
    Connection* c = nullptr;
    bool mine[2] = {};
    {
      std::lock_guard<std::mutex> lock(core.mutex);
      if (i >= core.all.size()) break;
      c = core.all[i].get();
      for (size_t side = 0; side < 2; ++side) mine[side] = c->ends[side].context == context;
    }
    for (int side = 0; side < 2; ++side) {
      if (!mine[side]) continue;
      while (core.poll_end(*c, side)) ++happened;
    }
  }
  return happened;
}

void close(tbcclTransportContext_t* context) {
  MemoryNetwork::Core& core = core_of(context);
  {
    std::lock_guard<std::mutex> lock(core.mutex);
    for (auto& c : core.all) {
      for (tbcclTrunk& end : c->ends) {
        if (end.context != context) continue;
        if (end.open) close_locked(core, &end, false);
        if (c->awaits_accept || (!c->established && c->ends[0].open)) {
          c->awaits_accept = false;
          if (end.side == 1)
            core.push(c->ends[0].context, {Event::Kind::kDown, c.get(), 0, 1, "closed"});
        }
        end.context = nullptr;
      }
    }
    std::erase(core.contexts, context);
  }
  if (context->wake[0] >= 0) {
    context->callbacks.watch(context->callbacks.self, context->wake[0], 0);
    ::close(context->wake[0]);
    ::close(context->wake[1]);
  }
  delete context;
}

template <size_t Slot>
constexpr tbcclTransport_t table() {
  return {sizeof(tbcclTransport_t),
          TBCCL_TRANSPORT_ABI,
          "memory",
          [](const tbcclTransportCallbacks_t* callbacks, char* error, size_t error_bytes,
             tbcclTransportContext_t** context) {
            return open_in(Slot, callbacks, error, error_bytes, context);
          },
          properties,
          listen,
          connect,
          send,
          poll,
          redirect,
          nullptr,
          close_trunk,
          close,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr};
}

template <size_t... Slot>
std::array<tbcclTransport_t, sizeof...(Slot)> tables(std::index_sequence<Slot...>) {
  return {table<Slot>()...};
}
const std::array<tbcclTransport_t, kNetworks> vtables =
    tables(std::make_index_sequence<kNetworks>());
}  // namespace

int register_network(MemoryNetwork::Core* core) {
  std::lock_guard<std::mutex> lock(networks_mutex);
  const auto free = std::find(networks.begin(), networks.end(), nullptr);
  if (free == networks.end()) return -1;
  *free = core;
  return static_cast<int>(free - networks.begin());
}

void forget_network(int slot) {
  std::lock_guard<std::mutex> lock(networks_mutex);
  if (slot >= 0) networks[static_cast<size_t>(slot)] = nullptr;
}

const tbcclTransport_t* vtable_of(int slot) {
  return slot < 0 ? nullptr : &vtables[static_cast<size_t>(slot)];
}

}  // namespace tbccl::testing
