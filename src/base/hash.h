// 64-bit hashes for fingerprints (of a call's arguments, of the basis). The same value on every
// host, whatever its byte order. Not for anything that an attacker may choose.
#pragma once

#include <cstdint>
#include <string_view>

namespace tbccl {

// Spreads every input bit over all output bits; a bijection (the finalizer of SplitMix64).
constexpr uint64_t mix64(uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9u;
  value ^= value >> 27;
  value *= 0x94d049bb133111ebu;
  value ^= value >> 31;
  return value;
}

// FNV-1a over bytes.
constexpr uint64_t fnv1a64(std::string_view bytes, uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

// Takes values one after the other; their order and number matter.
class Fingerprint {
 public:
  constexpr Fingerprint& add(uint64_t value) {
    state_ = mix64(state_ + 0x9e3779b97f4a7c15u) ^ mix64(value + 0x632be59bd9b4e019u);
    return *this;
  }
  // The length is part of it, so that ("ab", "c") and ("a", "bc") differ.
  constexpr Fingerprint& add(std::string_view text) { return add(text.size()).add(fnv1a64(text)); }
  constexpr uint64_t value() const { return mix64(state_); }

 private:
  uint64_t state_ = 0;
};

}  // namespace tbccl
