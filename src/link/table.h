// From the name of a message to the message: open addressing, linear probing, no allocation but
// for growth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "link/links.h"

namespace tbccl::link {

inline uint64_t hash_key(const Key& key) {
  uint64_t h = (static_cast<uint64_t>(key.comm) << 32 | key.step) * 0x9e3779b97f4a7c15u;
  h ^= key.op * 0xc2b2ae3d27d4eb4fu + static_cast<uint64_t>(key.cls);
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ (h >> 32);
}

// T has a member `key`.
template <class T>
class KeyTable {
 public:
  size_t size() const { return size_; }

  T* find(const Key& key) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = hash_key(key) & mask();; i = (i + 1) & mask()) {
      if (slots_[i] == nullptr || slots_[i]->key == key) return slots_[i];
    }
  }

  void insert(T* object) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    place(object);
    ++size_;
  }

  void erase(const T* object) {
    size_t i = hash_key(object->key) & mask();
    while (slots_[i] != object) i = (i + 1) & mask();
    // Moves later members of the cluster back, so that no search ends early.
    for (size_t j = i;;) {
      j = (j + 1) & mask();
      if (slots_[j] == nullptr) break;
      const size_t home = hash_key(slots_[j]->key) & mask();
      if (((j - home) & mask()) >= ((j - i) & mask())) {
        slots_[i] = slots_[j];
        i = j;
      }
    }
    slots_[i] = nullptr;
    --size_;
  }

  // All of them; the table may be changed while the result is used.
  std::vector<T*> all() const {
    std::vector<T*> result;
    for (T* object : slots_) {
      if (object != nullptr) result.push_back(object);
    }
    return result;
  }

 private:
  size_t mask() const { return slots_.size() - 1; }
  void place(T* object) {
    size_t i = hash_key(object->key) & mask();
    while (slots_[i] != nullptr) i = (i + 1) & mask();
    slots_[i] = object;
  }
  void grow() {
    std::vector<T*> old(slots_.empty() ? 64 : slots_.size() * 2, nullptr);
    std::swap(old, slots_);
    for (T* object : old) {
      if (object != nullptr) place(object);
    }
  }
  std::vector<T*> slots_;
  size_t size_ = 0;
};

}  // namespace tbccl::link
