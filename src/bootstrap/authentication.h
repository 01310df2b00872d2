// Proof that a peer knows the job's secret, and random bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "bootstrap/wire.h"

namespace tbccl::bootstrap {

// The nonces of both ends of one connection; a proof is worth nothing on another.
struct Nonces {
  Bytes16 connector{}, acceptor{};
};

// A value; without a secret every proof is empty and right.
class Authenticator {
 public:
  // InvalidUsage if a secret is set and the library was built without libsodium.
  static Status make(const std::string& secret, Authenticator* out);

  bool secured() const { return secured_; }
  // Keyed hash (HMAC-SHA-512-256) over who speaks (`label`), both nonces and the body.
  std::string prove(std::string_view label, const Nonces& nonces, std::string_view body) const;
  bool check(std::string_view label, const Nonces& nonces, const Sealed& sealed) const;

 private:
  bool secured_ = false;
  [[maybe_unused]] std::array<uint8_t, 32> key_{};  // unused without libsodium
};

// From the system's generator; false if it has none.
bool random_bytes(void* data, size_t size);

}  // namespace tbccl::bootstrap
