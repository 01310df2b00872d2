// What travels, and the hand of the test in it.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/memory_core.h"

namespace tbccl::testing {
namespace {

std::deque<Frame>::iterator position(std::deque<Frame>& queue, const Frame* frame) {
  return std::find_if(queue.begin(), queue.end(), [&](const Frame& f) { return &f == frame; });
}

}  // namespace

void MemoryNetwork::Core::wake(tbcclTransportContext_t* context) const {
  if (context == nullptr || context->wake[1] < 0) return;
  const char byte = 0;
  const ssize_t ignored = ::write(context->wake[1], &byte, 1);
  (void)ignored;  // a full pipe is readable already
}

Connection* MemoryNetwork::Core::find(int number) const {
  const auto at = static_cast<size_t>(number);
  return number >= 0 && at < all.size() ? all[at].get() : nullptr;
}

void MemoryNetwork::Core::push(tbcclTransportContext_t* context, Event event) const {
  if (context == nullptr) return;
  context->events.push_back(std::move(event));
  wake(context);
}

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
  core_->slot = register_network(core_.get());
}

MemoryNetwork::~MemoryNetwork() { forget_network(core_->slot); }

const tbcclTransport_t* MemoryNetwork::transport() const { return vtable_of(core_->slot); }

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
