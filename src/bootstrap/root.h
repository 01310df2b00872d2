// The root of a rendezvous: waits for `size` ranks, checks that they fit together, and gives all
// of them the table. Control thread only.
//
// States: waiting (ranks come and go) -> told (everyone was sent the table) or failed (everyone
// connected was sent the reason, and so is who comes late) -> ended (every member has closed its
// connection and nobody is expected any more, or the time for that is over).
#pragma once

#include <asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "bootstrap/door.h"

namespace tbccl::bootstrap {

class Root : public std::enable_shared_from_this<Root> {
 public:
  struct Options {
    uint32_t size = 0;           // 0: as the first rank says
    bool fixed_session = false;  // id form: only members that know it are let in
    Bytes16 session{};
    uint64_t deadline_ns = kNever;
    std::string where;      // for messages
    std::string variable;   // what the user has to check, for messages
    uint64_t limit_ns = 0;  // for messages: the time that was allowed
    uint64_t late_ns = 0;   // after a failure: how long late ranks are told, until the deadline
    Authenticator authenticator;
    std::function<void()> ended;  // once; the root has no connection and no timer any more
  };

  Root(asio::io_context& io, Options options) : io_(io), options_(std::move(options)), timer_(io) {}

  // Listens at one address and port, or at all addresses.
  Status open(const asio::ip::address& at, uint16_t port);
  Status open_all(const PortRange& range);
  uint16_t port() const { return door_->port(); }
  // "ranks 2 and 3 of 4 did not come to ..."
  std::string missing_text() const;
  // Rank 0 gives up: all who are here are told why.
  void abandon(const Status& cause) { fail(cause); }
  // Closes everything now.
  void close();

 private:
  enum class State { kWaiting, kTold, kFailed, kEnded };
  struct Slot {
    std::shared_ptr<Connection> connection;
    Nonces nonces;
    Hello hello;
  };
  Door::Host host();
  void opened();
  void enter(Guest guest);
  void received(uint32_t rank, Type type);
  void left(uint32_t rank, const Bytes16& instance);
  void tell();
  void fail(const Status& cause);
  void refuse(const std::shared_ptr<Connection>& connection);
  void linger(uint64_t ns);
  void end_if_done();

  asio::io_context& io_;
  Options options_;
  asio::steady_timer timer_;
  std::shared_ptr<Door> door_;
  std::map<uint32_t, Slot> slots_;
  std::set<uint32_t> left_;  // came and gave up; their deadlines may be just before the root's
  std::string turned_away_;  // the last one, for messages
  Status cause_;             // of the failure
  uint32_t refused_ = 0;     // processes that were told of it
  State state_ = State::kWaiting;
};

// "rank 2", "ranks 2 and 3", "ranks 0, 1, 2 and 61 more": the ranks for which `missing` holds.
std::string name_ranks(uint32_t size, const std::function<bool(uint32_t)>& missing);
std::string seconds_text(uint64_t ns);

}  // namespace tbccl::bootstrap
