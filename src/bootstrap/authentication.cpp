#include "bootstrap/authentication.h"

#include <unistd.h>

#ifdef __APPLE__
#include <sys/random.h>
#endif
#ifdef TBCCL_HAVE_SODIUM
#include <sodium.h>
#endif

namespace tbccl::bootstrap {

#ifdef TBCCL_HAVE_SODIUM

Status Authenticator::make(const std::string& secret, Authenticator* out) {
  *out = Authenticator();
  if (secret.empty()) return {};
  if (sodium_init() < 0) {
    return Status(tbcclSystemError,
                  "libsodium could not be initialised, so TBCCL_SECRET cannot be used");
  }
  static_assert(crypto_hash_sha256_BYTES == 32 && crypto_auth_KEYBYTES == 32);
  crypto_hash_sha256(out->key_.data(), reinterpret_cast<const unsigned char*>(secret.data()),
                     secret.size());
  out->secured_ = true;
  return {};
}

std::string Authenticator::prove(std::string_view label, const Nonces& nonces,
                                 std::string_view body) const {
  if (!secured_) return {};
  Writer w;
  w.text(label);
  w.raw(nonces.connector.data(), nonces.connector.size());
  w.raw(nonces.acceptor.data(), nonces.acceptor.size());
  w.blob(body);
  const std::string message = w.take();
  std::string proof(crypto_auth_BYTES, '\0');
  crypto_auth(reinterpret_cast<unsigned char*>(proof.data()),
              reinterpret_cast<const unsigned char*>(message.data()), message.size(), key_.data());
  return proof;
}

bool Authenticator::check(std::string_view label, const Nonces& nonces,
                          const Sealed& sealed) const {
  if (!secured_) return sealed.proof.empty();
  const std::string expected = prove(label, nonces, sealed.body);
  return sealed.proof.size() == expected.size() &&
         sodium_memcmp(sealed.proof.data(), expected.data(), expected.size()) == 0;
}

#else

Status Authenticator::make(const std::string& secret, Authenticator* out) {
  *out = Authenticator();
  if (secret.empty()) return {};
  return Status(tbcclInvalidUsage,
                "TBCCL_SECRET is set, but this tbccl was built without libsodium and cannot "
                "authenticate; install libsodium and build again, or unset TBCCL_SECRET");
}

std::string Authenticator::prove(std::string_view, const Nonces&, std::string_view) const {
  return {};
}

bool Authenticator::check(std::string_view, const Nonces&, const Sealed& sealed) const {
  return sealed.proof.empty();
}

#endif

bool random_bytes(void* data, size_t size) { return size <= 256 && getentropy(data, size) == 0; }

}  // namespace tbccl::bootstrap
