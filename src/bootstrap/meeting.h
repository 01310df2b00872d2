// One rank's way to the table, over a root: by an address or by an id. Control thread only.
//
// States: resolving the name -> dialing the root -> waiting for the table -> done. If the root's
// connection ends without a table it is dialed again, until the deadline.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/settings.h"
#include "bootstrap/dialer.h"
#include "bootstrap/root.h"

namespace tbccl::bootstrap {

class Meeting : public std::enable_shared_from_this<Meeting> {
 public:
  struct Options {
    uint32_t rank = 0, size = 1;
    Bytes16 instance{};
    Authenticator authenticator;
    uint64_t deadline_ns = kNever;
    uint64_t limit_ns = 0;  // for messages
    std::string interfaces;
    // Of this rank's listener, best first; `local` is this end of the connection to the root.
    std::function<std::vector<Endpoint>(const asio::ip::address& local)> endpoints;
  };
  struct Result {
    Table table;
    asio::ip::address local;  // this end of the connection to the root
  };
  using Done = std::function<void(const Status&, Result)>;

  Meeting(asio::io_context& io, Options options);

  // Rank 0 listens there. `done` is called once; on an error only after the root, if it is here,
  // has told the others.
  void at_address(const HostPort& where, Done done);
  void at_root(const struct IdContent& id, Done done);
  // After everyone has the table.
  void close();

 private:
  void begin(std::string where, std::string variable, Done done);
  void resolve(const HostPort& where);
  Status open_root(const asio::ip::address& at, uint16_t port);
  void dial(std::vector<TcpEndpoint> candidates);
  Hello hello(const TcpEndpoint& local) const;
  void reached(Dialed dialed);
  void received(Type type, const std::string& payload);
  void take_table(const std::string& payload);
  void ask();
  void run_out();
  void finish(const Status& status);
  void report(const Status& status);

  asio::io_context& io_;
  Options options_;
  asio::steady_timer deadline_, ask_, retry_;
  asio::ip::tcp::resolver resolver_;
  std::string where_, variable_;
  Bytes16 session_{};  // id form: known before
  bool session_known_ = false;
  std::shared_ptr<Root> root_;  // address form, rank 0
  bool root_ended_ = false;
  std::vector<TcpEndpoint> candidates_;
  std::shared_ptr<Dialer> dialer_;
  std::shared_ptr<Connection> connection_;
  Nonces nonces_;
  std::string missing_;     // the root's answer to ask()
  std::string name_error_;  // of resolving
  Result result_;
  Status failure_;
  bool failing_ = false;
  Done done_;
};

}  // namespace tbccl::bootstrap
