#include "support/memory_transport.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

namespace tbccl::testing {
namespace {

struct Connection;

struct Frame {
  std::array<std::byte, TBCCL_FRAME_HEADER_BYTES> header{};
  const std::byte* source = nullptr;  // the sender's memory, until moved == length
  std::vector<std::byte> payload;     // what has travelled
  uint32_t length = 0;
  uint32_t moved = 0;
  bool header_moved = false;
  bool owes_sent = true;  // sent(token) must be reported
  uint64_t token = 0;

  bool whole() const { return header_moved && moved == length; }
};

struct Event {
  enum class Kind { kUp, kDown, kSent, kWritable } kind;
  Connection* connection;
  int side;
  int gone = 0;
  std::string text{};
  uint64_t token = 0;
  std::vector<std::byte> reply{};
};

}  // namespace
}  // namespace tbccl::testing

// One end of a connection; the handle that the links hold.
struct tbcclTrunk {
  tbccl::testing::Connection* connection = nullptr;
  int side = 0;
  tbcclTransportContext* context = nullptr;
  void* user = nullptr;
  bool open = false;
  bool blocked = false;  // a send was answered with TBCCL_AGAIN
  // Receiving: the frame at the front of the incoming queue.
  bool placed = false;
  bool discard = false;
  std::byte* destination = nullptr;
  uint32_t consumed = 0;
  uint64_t serial = 0;  // changes with every frame that has been handed over
};

struct tbcclTransportContext {
  tbccl::testing::MemoryNetwork::Core* core = nullptr;
  tbcclTransportCallbacks_t callbacks{};
  uint32_t number = 0;
  bool listening = false;
  int wake[2] = {-1, -1};
  std::deque<tbccl::testing::Event> events;
};

namespace tbccl::testing {
namespace {

struct Connection {
  int number = 0;
  std::array<tbcclTrunk, 2> ends;  // 0 connects, 1 accepts
  std::array<std::deque<Frame>, 2> queues;
  std::vector<std::byte> hello;
  bool awaits_accept = true;
  bool established = false;
  bool stalled = false;
  bool dead = false;  // killed; down() is on its way
  // A down() that waits until the frames written before it have been read.
  std::array<bool, 2> closing = {false, false};
  std::array<int, 2> closing_gone = {0, 0};
};

}  // namespace

struct MemoryNetwork::Core {
  mutable std::mutex mutex;
  MemoryOptions options;
  std::function<Fault(int, int, const void*)> fault;
  bool refuse = false;
  bool refuse_gone = true;
  int slot = -1;
  uint32_t next_context = 1;
  std::vector<tbcclTransportContext*> contexts;
  std::vector<std::unique_ptr<Connection>> all;

  void wake(tbcclTransportContext* context) const {
    if (context == nullptr || context->wake[1] < 0) return;
    const char byte = 0;
    const ssize_t ignored = ::write(context->wake[1], &byte, 1);
    (void)ignored;  // a full pipe is readable already
  }
  Connection* find(int number) const {
    return number >= 0 && static_cast<size_t>(number) < all.size()
               ? all[static_cast<size_t>(number)].get()
               : nullptr;
  }
  void push(tbcclTransportContext* context, Event event) const {
    if (context == nullptr) return;
    context->events.push_back(std::move(event));
    wake(context);
  }
  void move_bytes(Connection& c, int direction, Frame& frame, uint32_t bytes) const;
  Frame* next_to_move(Connection& c, int direction) const;
  void end(Connection& c, int side, int gone, const char* text) const;
  bool poll_end(Connection& c, int side);
};

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
  if (fault == Fault::kReorder && !queue.empty() &&
      queue.back().payload.size() == queue.back().moved &&
      (queue.size() > 1 || c.ends[static_cast<size_t>(1 - trunk->side)].consumed == 0)) {
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
    {
      std::lock_guard<std::mutex> lock(core.mutex);
      if (i >= core.all.size()) break;
      c = core.all[i].get();
    }
    for (int side = 0; side < 2; ++side) {
      if (c->ends[static_cast<size_t>(side)].context != context) continue;
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
          nullptr,
          close_trunk,
          close};
}

template <size_t... Slot>
std::array<tbcclTransport_t, sizeof...(Slot)> tables(std::index_sequence<Slot...>) {
  return {table<Slot>()...};
}
const std::array<tbcclTransport_t, kNetworks> vtables =
    tables(std::make_index_sequence<kNetworks>());

std::deque<Frame>::iterator position(std::deque<Frame>& queue, const Frame* frame) {
  return std::find_if(queue.begin(), queue.end(), [&](const Frame& f) { return &f == frame; });
}

}  // namespace

void MemoryNetwork::Core::move_bytes(Connection& c, int direction, Frame& frame,
                                     uint32_t bytes) const {
  frame.header_moved = true;
  if (bytes > 0 && frame.source != nullptr) {
    frame.payload.insert(frame.payload.end(), frame.source + frame.moved,
                         frame.source + frame.moved + bytes);
    frame.moved += bytes;
  }
  tbcclTrunk& sender = c.ends[static_cast<size_t>(direction)];
  if (frame.whole() && frame.owes_sent) {
    frame.owes_sent = false;
    frame.source = nullptr;
    if (sender.open) push(sender.context, {Event::Kind::kSent, &c, direction, 0, "", frame.token});
  }
  wake(c.ends[static_cast<size_t>(1 - direction)].context);
}

Frame* MemoryNetwork::Core::next_to_move(Connection& c, int direction) const {
  for (Frame& frame : c.queues[static_cast<size_t>(direction)]) {
    if (!frame.whole()) return &frame;
  }
  return nullptr;
}

void MemoryNetwork::Core::end(Connection& c, int side, int gone, const char* text) const {
  tbcclTrunk& trunk = c.ends[static_cast<size_t>(side)];
  c.dead = true;
  if (!trunk.open) return;
  c.queues[static_cast<size_t>(side)].clear();
  std::erase_if(trunk.context->events,
                [&](const Event& e) { return e.connection == &c && e.side == side; });
  push(trunk.context, {Event::Kind::kDown, &c, side, gone, text});
}

// Hands one step of the frame at the front of the incoming queue to this end; false: nothing to do.
bool MemoryNetwork::Core::poll_end(Connection& c, int side) {
  std::unique_lock<std::mutex> lock(mutex);
  tbcclTrunk& end = c.ends[static_cast<size_t>(side)];
  auto& queue = c.queues[static_cast<size_t>(1 - side)];
  if (!end.open || !c.established || c.stalled || c.dead) return false;
  if (side == 0 &&
      std::any_of(end.context->events.begin(), end.context->events.end(), [&](const Event& e) {
        return e.connection == &c && e.kind == Event::Kind::kUp;
      })) {
    return false;
  }
  const auto& cb = end.context->callbacks;
  const bool ready =
      !queue.empty() && queue.front().header_moved &&
      (options.slotted ? queue.front().whole()
                       : (queue.front().length == 0 || queue.front().moved > end.consumed ||
                          (!end.placed && queue.front().moved == 0)));
  if (!ready) {
    if (!c.closing[static_cast<size_t>(side)]) return false;
    c.closing[static_cast<size_t>(side)] = false;
    end.open = false;
    const int gone = c.closing_gone[static_cast<size_t>(side)];
    lock.unlock();
    cb.down(cb.self, end.user, gone, "closed by the peer");
    return true;
  }
  const auto header = queue.front().header;
  const uint32_t length = queue.front().length;
  bool finished = false;
  if (options.slotted || length == 0) {
    const std::vector<std::byte> payload = std::move(queue.front().payload);
    finished = true;
    queue.pop_front();
    lock.unlock();
    if (options.slotted) {
      cb.deliver(cb.self, end.user, header.data(), payload.data(), length);
    } else {
      cb.progress(cb.self, end.user, header.data(), 0, 0);
    }
    lock.lock();
  } else {
    if (!end.placed) {
      end.placed = true;
      end.discard = false;
      lock.unlock();
      void* destination = cb.place(cb.self, end.user, header.data(), length);
      lock.lock();
      if (!end.open || c.dead) return true;
      if (!end.discard) end.destination = static_cast<std::byte*>(destination);
      if (queue.front().moved == 0) return true;
    }
    const Frame& frame = queue.front();  // only this end removes it, or kill()
    uint32_t target = frame.moved;
    if (options.chunk != 0) target = std::min(target, end.consumed + options.chunk);
    if (end.destination != nullptr) {
      std::memcpy(end.destination + end.consumed, frame.payload.data() + end.consumed,
                  target - end.consumed);
    }
    end.consumed = target;
    finished = target == length;
    const bool tell = !end.discard;
    if (finished) {
      queue.pop_front();
      end.consumed = 0;
      end.placed = false;
      end.destination = nullptr;
      end.discard = false;
    }
    lock.unlock();
    if (tell) cb.progress(cb.self, end.user, header.data(), target, length);
    lock.lock();
  }
  tbcclTrunk& sender = c.ends[static_cast<size_t>(1 - side)];
  if (finished && sender.open && sender.blocked && queue.size() < options.queue_frames) {
    sender.blocked = false;
    push(sender.context, {Event::Kind::kWritable, &c, 1 - side});
  }
  return true;
}

MemoryNetwork::MemoryNetwork(const MemoryOptions& options) : core_(std::make_unique<Core>()) {
  core_->options = options;
  std::lock_guard<std::mutex> lock(networks_mutex);
  for (size_t i = 0; i < kNetworks; ++i) {
    if (networks[i] != nullptr) continue;
    networks[i] = core_.get();
    core_->slot = static_cast<int>(i);
    break;
  }
}

MemoryNetwork::~MemoryNetwork() {
  std::lock_guard<std::mutex> lock(networks_mutex);
  if (core_->slot >= 0) networks[static_cast<size_t>(core_->slot)] = nullptr;
}

const tbcclTransport_t* MemoryNetwork::transport() const {
  return core_->slot < 0 ? nullptr : &vtables[static_cast<size_t>(core_->slot)];
}

void MemoryNetwork::set_fault(std::function<Fault(int, int, const void*)> fault) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->fault = std::move(fault);
}

void MemoryNetwork::refuse(bool on, bool gone) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  core_->refuse = on;
  core_->refuse_gone = gone;
}

std::vector<int> MemoryNetwork::connections() const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  std::vector<int> open;
  for (const auto& c : core_->all) {
    if (c->established && c->ends[0].open && c->ends[1].open) open.push_back(c->number);
  }
  return open;
}

size_t MemoryNetwork::queued(int connection, int direction) const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  const Connection* c = core_->find(connection);
  return c == nullptr ? 0 : c->queues[static_cast<size_t>(direction)].size();
}

uint32_t MemoryNetwork::front_length(int connection, int direction) const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Connection* c = core_->find(connection);
  const Frame* frame = c == nullptr ? nullptr : core_->next_to_move(*c, direction);
  return frame == nullptr ? 0 : frame->length - frame->moved;
}

bool MemoryNetwork::movable(int connection, int direction) const {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Connection* c = core_->find(connection);
  return c != nullptr && !c->stalled && core_->next_to_move(*c, direction) != nullptr;
}

void MemoryNetwork::kill(int connection, bool gone) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Connection* c = core_->find(connection);
  if (c == nullptr) return;
  for (int side = 0; side < 2; ++side) core_->end(*c, side, gone, "killed by the test");
}

void MemoryNetwork::stall(int connection, bool on) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Connection* c = core_->find(connection);
  if (c == nullptr) return;
  c->stalled = on;
  for (tbcclTrunk& end : c->ends) core_->wake(end.context);
}

bool MemoryNetwork::move(int connection, int direction, bool half) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Connection* c = core_->find(connection);
  if (c == nullptr || c->stalled) return false;
  Frame* frame = core_->next_to_move(*c, direction);
  if (frame == nullptr) return false;
  const uint32_t left = frame->length - frame->moved;
  core_->move_bytes(*c, direction, *frame, half ? left / 2 : left);
  return true;
}

bool MemoryNetwork::lose(int connection, int direction) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Connection* c = core_->find(connection);
  Frame* frame = c == nullptr ? nullptr : core_->next_to_move(*c, direction);
  if (frame == nullptr || frame->header_moved) return false;
  core_->move_bytes(*c, direction, *frame, frame->length - frame->moved);  // sent() is owed
  auto& queue = c->queues[static_cast<size_t>(direction)];
  queue.erase(position(queue, frame));
  return true;
}

bool MemoryNetwork::duplicate(int connection, int direction) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Connection* c = core_->find(connection);
  Frame* frame = c == nullptr ? nullptr : core_->next_to_move(*c, direction);
  if (frame == nullptr || frame->header_moved) return false;
  core_->move_bytes(*c, direction, *frame, frame->length);
  auto& queue = c->queues[static_cast<size_t>(direction)];
  const Frame copy = *frame;
  const auto at = position(queue, frame);
  queue.insert(at + 1, copy);
  return true;
}

bool MemoryNetwork::swap(int connection, int direction) {
  std::lock_guard<std::mutex> lock(core_->mutex);
  Connection* c = core_->find(connection);
  Frame* frame = c == nullptr ? nullptr : core_->next_to_move(*c, direction);
  if (frame == nullptr || frame->header_moved) return false;
  auto& queue = c->queues[static_cast<size_t>(direction)];
  const auto at = position(queue, frame);
  if (at + 1 == queue.end()) return false;
  std::iter_swap(at, at + 1);
  return true;
}

}  // namespace tbccl::testing
