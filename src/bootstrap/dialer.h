// The connecting side: reaches one peer (or root) at any of its addresses, and proves itself.
//
// Rounds over the candidates, each started 250 ms after the one before or as soon as that has
// failed; the first whose handshake is complete is kept (kUse) and the rest are closed. Between
// rounds it waits, 50 ms at first and at most a second. Control thread only.
#pragma once

#include <asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "bootstrap/authentication.h"
#include "bootstrap/connection.h"

namespace tbccl::bootstrap {

struct Dialed {
  std::shared_ptr<Connection> connection;  // started; its handler is to be replaced
  Nonces nonces;
  Welcome welcome;
};

class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  struct Plan {
    std::vector<TcpEndpoint> candidates;
    Authenticator authenticator;
    std::function<Hello(const TcpEndpoint& local)> hello;
    std::function<bool(const Welcome&)> accept;  // is this whom we meant?
  };
  // `done` is called once, never after stop(): with a connection, or with the peer's refusal.
  using Done = std::function<void(const Status& refusal, Dialed dialed)>;

  explicit Dialer(asio::io_context& io) : io_(io), next_(io) {}
  void start(Plan plan, Done done);
  void stop();
  const std::string& last_error() const { return last_error_; }

 private:
  struct Attempt;
  void begin_round();
  void try_next();
  void failed(const std::shared_ptr<Attempt>& attempt, const std::string& why);
  void connected(const std::shared_ptr<Attempt>& attempt);
  void received(const std::shared_ptr<Attempt>& attempt, Type type, const std::string& payload);
  void challenged(const std::shared_ptr<Attempt>& attempt, const std::string& payload);
  void welcomed(const std::shared_ptr<Attempt>& attempt, const std::string& payload);
  void refused(const std::shared_ptr<Attempt>& attempt, const std::string& payload);
  void give_up(const Status& refusal);

  asio::io_context& io_;
  asio::steady_timer next_;
  Plan plan_;
  Done done_;
  std::list<std::shared_ptr<Attempt>> attempts_;
  size_t candidate_ = 0;
  uint64_t pause_ns_ = 0;
  std::string last_error_ = "no address to try";
};

// What an acceptor says when only one side has a secret, or they differ.
std::string secret_mismatch_text(bool mine, bool theirs);

}  // namespace tbccl::bootstrap
