// Memory that is asked for once and used again: objects, buffers by size, and lists through the
// objects themselves.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tbccl::link {

// Objects of one type. What take() gives is as new.
template <class T>
class Pool {
 public:
  T* take() {
    if (free_.empty()) {
      blocks_.push_back(std::make_unique<std::array<T, kBlock>>());
      free_.reserve(blocks_.size() * kBlock);
      for (T& object : *blocks_.back()) free_.push_back(&object);
    }
    T* object = free_.back();
    free_.pop_back();
    *object = T{};
    return object;
  }
  void give(T* object) { free_.push_back(object); }

 private:
  static constexpr size_t kBlock = 64;
  std::vector<std::unique_ptr<std::array<T, kBlock>>> blocks_;
  std::vector<T*> free_;
};

// Buffers in sizes of powers of two from 64 bytes on.
class BufferPool {
 public:
  std::byte* take(size_t bytes) {
    auto& list = free_[size_class(bytes)];
    if (!list.empty()) {
      std::byte* buffer = list.back();
      list.pop_back();
      return buffer;
    }
    all_.push_back(std::make_unique<std::byte[]>(size_t{64} << size_class(bytes)));
    return all_.back().get();
  }
  void give(std::byte* buffer, size_t bytes) {
    if (buffer != nullptr) free_[size_class(bytes)].push_back(buffer);
  }

 private:
  static size_t size_class(size_t bytes) {
    return bytes <= 64 ? 0 : static_cast<size_t>(std::bit_width((bytes - 1) >> 6));
  }
  std::vector<std::unique_ptr<std::byte[]>> all_;
  std::array<std::vector<std::byte*>, 48> free_;
};

// A doubly linked list through members `next` and `previous` of T. An object is in one at a time.
template <class T>
class List {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }
  T* back() const { return tail_; }
  void push_back(T* object) {
    object->next = nullptr;
    object->previous = tail_;
    (tail_ != nullptr ? tail_->next : head_) = object;
    tail_ = object;
  }
  void push_front(T* object) {
    object->previous = nullptr;
    object->next = head_;
    (head_ != nullptr ? head_->previous : tail_) = object;
    head_ = object;
  }
  void insert_after(T* before, T* object) {  // nullptr: as the first
    if (before == nullptr) return push_front(object);
    if (before == tail_) return push_back(object);
    object->previous = before;
    object->next = before->next;
    before->next->previous = object;
    before->next = object;
  }
  void remove(T* object) {
    (object->previous != nullptr ? object->previous->next : head_) = object->next;
    (object->next != nullptr ? object->next->previous : tail_) = object->previous;
    object->next = object->previous = nullptr;
  }
  T* pop_front() {
    T* object = head_;
    if (object != nullptr) remove(object);
    return object;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace tbccl::link
