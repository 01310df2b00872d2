#include "engine/token.h"

#include <cassert>

namespace tbccl::engine {
namespace {

// Its address names the thread.
thread_local char thread_mark;

}  // namespace

Token::Taken Token::try_take() {
  uint64_t seen = word_.load();
  const auto state = static_cast<State>(seen & kStateMask);
  if (state != State::kFree && state != State::kListening) return Taken::kNo;
  const uint64_t held = ((seen & ~kStateMask) + kOneTaking) | static_cast<uint64_t>(State::kHeld);
  if (!word_.compare_exchange_strong(seen, held)) return Taken::kNo;
  owner_.store(&thread_mark, std::memory_order_relaxed);
  return state == State::kFree ? Taken::kFree : Taken::kFromListener;
}

bool Token::mine() const { return owner_.load(std::memory_order_relaxed) == &thread_mark; }

void Token::become(State state) {
  assert(mine());
  const uint64_t word = word_.load(std::memory_order_relaxed);
  word_.exchange((word & ~kStateMask) | static_cast<uint64_t>(state));
}

void Token::release() {
  assert(mine());
  owner_.store(nullptr, std::memory_order_relaxed);
  const uint64_t word = word_.load(std::memory_order_relaxed);
  word_.exchange(word & ~kStateMask);
}

void Token::listen() {
  assert(mine());
  owner_.store(nullptr, std::memory_order_relaxed);
  const uint64_t word = word_.load(std::memory_order_relaxed);
  listening_word_ = (word & ~kStateMask) | static_cast<uint64_t>(State::kListening);
  word_.exchange(listening_word_);
}

bool Token::resume() {
  uint64_t expected = listening_word_;
  const uint64_t held = (expected & ~kStateMask) | static_cast<uint64_t>(State::kHeld);
  if (!word_.compare_exchange_strong(expected, held)) return false;
  owner_.store(&thread_mark, std::memory_order_relaxed);
  return true;
}

}  // namespace tbccl::engine
