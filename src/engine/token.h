// The right to touch a lane: see README.md for the states and for which atomic pairs with which.
#pragma once

#include <atomic>
#include <cstdint>

namespace tbccl::engine {

class Token {
 public:
  enum class State : uint32_t { kFree = 0, kHeld = 1, kSleeping = 2, kListening = 3 };
  enum class Taken { kNo, kFree, kFromListener };

  // Any thread. kFromListener: the worker is still in the poller, the taker is to ring.
  Taken try_take();
  State state() const { return static_cast<State>(word_.load() & kStateMask); }
  // Changes with every taking.
  uint64_t word() const { return word_.load(); }
  // True on the thread that holds the token; for assertions.
  bool mine() const;

  // Only the holder.
  void release();
  void sleep() { become(State::kSleeping); }
  void wake() { become(State::kHeld); }
  void listen();
  // After listen(), by the same thread: true if it holds the token again, false if it was taken.
  bool resume();

 private:
  static constexpr uint64_t kStateMask = 3;
  static constexpr uint64_t kOneTaking = 4;

  void become(State state);

  alignas(128) std::atomic<uint64_t> word_{0};
  std::atomic<const void*> owner_{nullptr};
  uint64_t listening_word_ = 0;  // the listener's own
};

}  // namespace tbccl::engine
