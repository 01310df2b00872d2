// The standing connections of one rank to its neighbours, and everything that is told over them:
// set-up's all-gather, who is gone, what failed, records, goodbyes. Control thread only.
//
// Owned by its Control and kept alive by pending operations; after close() nothing is called.
#pragma once

#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/control.h"
#include "bootstrap/dialer.h"
#include "bootstrap/door.h"

namespace tbccl::bootstrap {

class Group : public std::enable_shared_from_this<Group> {
 public:
  struct Options {
    uint32_t rank = 0, size = 1;
    Bytes16 instance{};
    Authenticator authenticator;
    ControlEvents* events = nullptr;
  };
  using Done = std::function<void(const Status&)>;
  using Gathered = std::function<void(const Status&, std::vector<std::string>)>;
  using Records = std::function<void(std::vector<PeerRecord>)>;

  Group(asio::io_context& io, Options options);

  // --- set-up (group.cpp), in this order ---
  // Listens for neighbours: on the loopback address alone, or on all.
  Status open(bool loopback_only, bool v6, const PortRange& range);
  // Where neighbours find this rank: `first` (may be unspecified) leads.
  std::vector<Endpoint> endpoints(const std::string& interfaces,
                                  const asio::ip::address& first) const;
  // Connects to all neighbours.
  void link(const Table& table, uint64_t deadline_ns, Done done);
  // This end of the connection to the lowest rank of another host; unspecified if there is none.
  asio::ip::address local_end() const;

  // --- gather.cpp ---
  void all_gather(std::string mine, uint64_t deadline_ns, Gathered done);

  // --- notices.cpp ---
  void announce(uint32_t comm, const Status& cause);
  void goodbye(uint64_t deadline_ns, Done done);
  // Goodbyes end with `cause` from now on.
  void interrupt(const Status& cause);

  // --- records.cpp ---
  void query(uint32_t comm, uint64_t timeout_ns, Records done);

  // Ends everything; what was waited for ends with an error. `closed` is called when every
  // neighbour has read this rank's last words, or half a second later.
  void close(std::function<void()> closed);

  const Table& table() const { return table_; }

 private:
  struct Peer {
    bool neighbour = false;
    bool gone = false;
    bool finished = false;
    Status cause;  // of its being gone
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Dialer> dialer;
    uint32_t unheard_queries = 0;  // sent to it since it last said anything
  };
  struct GatherState {
    uint64_t sequence = 0;  // of the last one started
    bool active = false;
    bool sent = false;                      // to the parent
    std::map<uint32_t, std::string> blobs;  // by rank
    std::map<uint32_t, Blobs> early;        // by child: it was here before this rank's call
    std::set<uint32_t> heard;               // children
    Gathered done;
    Status broken;
  };
  struct QueryState {
    uint32_t comm = 0;
    std::vector<PeerRecord> records;
    std::unique_ptr<asio::steady_timer> timer;
    Records done;
  };

  // group.cpp
  bool judge(const Hello& hello, Welcome* welcome) const;
  void enter(Guest guest);
  void dial(uint32_t rank);
  void adopt(uint32_t rank, std::shared_ptr<Connection> connection);
  void check_linked();
  void finish_link(const Status& status);
  std::string unlinked_text() const;
  void received(uint32_t from, Type type, const std::string& payload);
  void lost(uint32_t rank, const std::string& why);
  void send(uint32_t rank, const std::string& bytes);
  // To all neighbours but `except` (the rank itself: to all).
  void flood(const std::string& bytes, uint32_t except);
  std::string name(uint32_t rank) const;  // "rank 2 (on mac-3)"

  // gather.cpp
  void on_gather(uint32_t from, const std::string& payload);
  void on_spread(uint32_t from, const std::string& payload);
  bool take_gather(uint32_t child, Blobs blobs);
  void advance_gather();
  void finish_gather(const Status& status);
  void spread(const std::string& bytes);
  std::string unheard_text() const;

  // notices.cpp
  void mark_gone(uint32_t rank, const Status& cause, uint32_t from);
  void on_gone(uint32_t from, const std::string& payload);
  void on_failed(uint32_t from, const std::string& payload);
  void on_goodbye(uint32_t from, const std::string& payload);
  void check_goodbye();
  void part();
  void finish_goodbye(const Status& status);
  bool all_left() const;
  Status goodbye_result() const;

  // records.cpp
  void on_query(uint32_t from, const std::string& payload);
  void on_answer(uint32_t from, const std::string& payload);
  PeerRecord own_record(uint32_t comm) const;
  void note_record(uint64_t number, PeerRecord record);
  void check_queries();
  void finish_query(uint64_t number);

  asio::io_context& io_;
  Options options_;
  Table table_;
  bool closed_ = false;
  std::shared_ptr<Door> door_;
  std::vector<Peer> peers_;  // by rank

  bool linking_ = false;
  uint64_t link_deadline_ns_ = kNever;
  asio::steady_timer link_timer_;
  Done linked_;

  GatherState gather_;
  asio::steady_timer gather_timer_;

  std::set<std::pair<uint32_t, uint32_t>> failed_;  // (rank, communicator) told already
  bool said_goodbye_ = false;
  Status interrupted_;
  bool parting_ = false;
  asio::steady_timer goodbye_timer_;
  Done goodbye_done_;

  uint64_t next_query_ = 1;
  std::map<uint64_t, QueryState> queries_;         // own, by number
  std::vector<uint64_t> last_query_;               // by origin: floods arrive in order
  using RouteKey = std::pair<uint32_t, uint64_t>;  // origin, number
  std::map<RouteKey, uint32_t> routes_;  // others' queries: the neighbour towards the origin
  std::deque<RouteKey> route_order_;     // oldest first
};

}  // namespace tbccl::bootstrap
