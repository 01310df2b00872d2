// What other threads have for the holder of a lane: a lock-free stack, popped whole and reversed.
// Items of one pusher come out in the order they were pushed.
#pragma once

#include <atomic>
#include <cstdint>

namespace tbccl::engine {

struct Item {
  enum class Kind : uint8_t { kSubmit, kFail, kPeerGone, kPeerFinished, kVisit };
  explicit Item(Kind k) : kind(k) {}
  Item* next = nullptr;
  const Kind kind;
};

class Inbox {
 public:
  void push(Item* item) {
    Item* head = head_.load(std::memory_order_relaxed);
    do {
      item->next = head;
    } while (!head_.compare_exchange_weak(head, item));
  }

  bool empty() const { return head_.load() == nullptr; }

  // Everything pushed so far, oldest first; nullptr: nothing.
  Item* take_all() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    Item* newest_first = head_.exchange(nullptr);
    Item* oldest_first = nullptr;
    while (newest_first != nullptr) {
      Item* item = newest_first;
      newest_first = item->next;
      item->next = oldest_first;
      oldest_first = item;
    }
    return oldest_first;
  }

 private:
  alignas(128) std::atomic<Item*> head_{nullptr};
};

}  // namespace tbccl::engine
