// The accepting side: a listener and the strangers in front of it. A stranger becomes a guest by
// the handshake (README.md); until then it gets 4 KiB a frame, five seconds in all and one of 512
// places, the oldest of which is taken by a newcomer when all are used. Control thread only.
#pragma once

#include <asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "base/status.h"
#include "bootstrap/authentication.h"
#include "bootstrap/connection.h"

namespace tbccl::bootstrap {

struct Guest {
  std::shared_ptr<Connection> connection;  // started; its handler is to be replaced
  Nonces nonces;
  Hello hello;
};

class Door : public std::enable_shared_from_this<Door> {
 public:
  struct Host {
    // May this proven hello come in? False: closed without a word.
    std::function<bool(const Hello&, Welcome*)> judge;
    // It chose this connection.
    std::function<void(Guest)> enter;
    // Somebody who speaks the protocol was turned away; for messages.
    std::function<void(const std::string& what)> turned_away;
  };

  explicit Door(asio::io_context& io) : io_(io), acceptor_(io), retry_(io) {}

  // A fixed port: range {port, port}; {0, 0}: any. SystemError names address and port.
  Status open(const asio::ip::address& at, const PortRange& range, Authenticator authenticator,
              Host host);
  // All addresses of this host, IPv6 and IPv4 where the system has both.
  Status open_all(const PortRange& range, Authenticator authenticator, Host host);
  void close();
  uint16_t port() const { return port_; }

 private:
  struct Stranger;
  Status listen(const asio::ip::address& at, const PortRange& range);
  void wait();
  void accept_all();
  void received(const std::shared_ptr<Stranger>& stranger, Type type, const std::string& payload);
  void opened(const std::shared_ptr<Stranger>& stranger, const std::string& payload);
  void greeted(const std::shared_ptr<Stranger>& stranger, const std::string& payload);
  void refuse(const std::shared_ptr<Stranger>& stranger, const std::string& text,
              const std::string& note);
  void drop(const std::shared_ptr<Stranger>& stranger);

  asio::io_context& io_;
  Acceptor acceptor_;
  asio::steady_timer retry_;
  Authenticator authenticator_;
  Host host_;
  uint16_t port_ = 0;
  std::list<std::shared_ptr<Stranger>> strangers_;  // oldest first
};

}  // namespace tbccl::bootstrap
