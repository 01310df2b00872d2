#include "bootstrap/group.h"

#include <unistd.h>

#include "base/formatted.h"
#include "base/log.h"
#include "bootstrap/neighbours.h"
#include "bootstrap/root.h"
#include "bootstrap/timer.h"
#include "topology/host.h"

namespace tbccl::bootstrap {

Group::Group(asio::io_context& io, Options options)
    : io_(io),
      options_(std::move(options)),
      peers_(options_.size),
      link_timer_(io),
      gather_timer_(io),
      goodbye_timer_(io),
      last_query_(options_.size, 0) {
  for (const uint32_t rank : neighbours(options_.rank, options_.size))
    peers_[rank].neighbour = true;
  table_.members.resize(options_.size);
}

Status Group::open(bool loopback_only, bool v6, const PortRange& range) {
  const std::weak_ptr<Group> weak = weak_from_this();
  Door::Host host;
  host.judge = [weak](const Hello& hello, Welcome* welcome) {
    const auto self = weak.lock();
    return self != nullptr && self->judge(hello, welcome);
  };
  host.enter = [weak](Guest guest) {
    if (const auto self = weak.lock()) self->enter(std::move(guest));
  };
  host.turned_away = [](const std::string& what) { log::warn("control: {}", what); };
  door_ = std::make_shared<Door>(io_);
  if (!loopback_only) return door_->open_all(range, options_.authenticator, std::move(host));
  asio::ip::address at = asio::ip::address_v4::loopback();
  if (v6) at = asio::ip::address_v6::loopback();
  return door_->open(at, range, options_.authenticator, std::move(host));
}

std::vector<Endpoint> Group::endpoints(const std::string& interfaces,
                                       const asio::ip::address& first) const {
  std::vector<Endpoint> list;
  const auto add = [&](Endpoint e) {
    e.port = door_->port();
    e.scope = 0;
    const bool known = std::find(list.begin(), list.end(), e) != list.end();
    if (!known && list.size() < kMaxEndpoints) list.push_back(e);
  };
  if (!first.is_unspecified()) add(from_asio({first, 0}));
  // Ranks of this host always find each other over loopback, whatever the filter says.
  for (const LocalAddress& a : local_addresses("")) {
    if (is_loopback(a.endpoint)) add(a.endpoint);
  }
  for (const LocalAddress& a : local_addresses(interfaces)) add(a.endpoint);
  return list;
}

void Group::link(const Table& table, uint64_t deadline_ns, Done done) {
  table_ = table;
  linking_ = true;
  link_deadline_ns_ = deadline_ns;
  linked_ = std::move(done);
  set_timer(link_timer_, deadline_ns, [self = shared_from_this()] {
    self->finish_link(Status(tbcclTimeout, self->unlinked_text()));
  });
  // The higher rank connects; the lower one listens.
  for (uint32_t rank = 0; rank < options_.rank; ++rank) {
    if (peers_[rank].neighbour) dial(rank);
  }
  check_linked();
}

void Group::dial(uint32_t rank) {
  const Member& me = table_.members[options_.rank];
  const Member& peer = table_.members[rank];
  Dialer::Plan plan;
  plan.candidates = dial_order(peer.endpoints, peer.host == me.host);
  plan.authenticator = options_.authenticator;
  const std::weak_ptr<Group> weak = weak_from_this();
  plan.hello = [weak, rank](const TcpEndpoint&) {
    Hello hello;
    const auto self = weak.lock();
    if (self == nullptr) return hello;
    hello.purpose = Purpose::kPeer;
    hello.session = self->table_.session;
    hello.instance = self->options_.instance;
    hello.size = self->options_.size;
    hello.rank = self->options_.rank;
    hello.target = rank;
    hello.process = static_cast<uint32_t>(getpid());
    return hello;
  };
  plan.accept = [session = table_.session, rank](const Welcome& w) {
    return w.session == session && w.rank == rank;
  };
  peers_[rank].dialer = std::make_shared<Dialer>(io_);
  peers_[rank].dialer->start(std::move(plan), [weak, rank](const Status& refusal, Dialed dialed) {
    const auto self = weak.lock();
    if (self == nullptr || self->closed_) return;
    if (!refusal.ok()) return self->finish_link(refusal);
    self->adopt(rank, std::move(dialed.connection));
  });
}

// Before the table has come the session is zero, and nobody can be let in; the peer tries again.
bool Group::judge(const Hello& hello, Welcome* welcome) const {
  if (!linking_ || hello.purpose != Purpose::kPeer) return false;
  if (hello.session != table_.session || hello.size != options_.size ||
      hello.target != options_.rank)
    return false;
  if (hello.rank <= options_.rank || !peers_[hello.rank].neighbour) return false;
  welcome->session = table_.session;
  welcome->rank = options_.rank;
  return true;
}

void Group::enter(Guest guest) {
  Welcome ignored;
  const uint32_t rank = guest.hello.rank;
  // Judged again: two attempts of one peer may have been welcomed, and time has passed.
  if (closed_ || !judge(guest.hello, &ignored) || peers_[rank].connection != nullptr) {
    return guest.connection->close();
  }
  adopt(rank, std::move(guest.connection));
}

void Group::adopt(uint32_t rank, std::shared_ptr<Connection> connection) {
  const std::weak_ptr<Group> weak = weak_from_this();
  Connection::Handler handler;
  handler.frame = [weak, rank](Type type, const std::string& payload) {
    if (const auto self = weak.lock()) self->received(rank, type, payload);
  };
  handler.closed = [weak, rank](const std::string& why) {
    if (const auto self = weak.lock()) self->lost(rank, why);
  };
  connection->set_limit(kMaxFrameBytes);
  connection->set_handler(std::move(handler));
  peers_[rank].connection = std::move(connection);
  peers_[rank].dialer.reset();
  check_linked();
}

void Group::check_linked() {
  if (!linking_) return;
  for (const Peer& peer : peers_) {
    if (peer.neighbour && peer.connection == nullptr) return;
  }
  finish_link({});
}

void Group::finish_link(const Status& status) {
  if (!linking_) return;
  linking_ = false;
  link_timer_.cancel();
  if (door_ != nullptr) door_->close();  // nobody else is expected
  for (Peer& peer : peers_) {
    if (peer.dialer != nullptr) peer.dialer->stop();
  }
  const Done done = std::move(linked_);
  if (done) done(status);
}

std::string Group::unlinked_text() const {
  std::string text = formatted("rank {} has no control connection with {}", options_.rank,
                               name_ranks(options_.size, [this](uint32_t r) {
                                 return peers_[r].neighbour && peers_[r].connection == nullptr;
                               }));
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (peers_[rank].dialer == nullptr) continue;
    return formatted(
        "{} ({}); check that these hosts reach each other, that no filter stands between them, and "
        "choose the interface by TBCCL_SOCKET_IFNAME and the ports by TBCCL_PORT_RANGE if needed",
        text, peers_[rank].dialer->last_error());
  }
  return text + ", which connect to this one; look at their errors";
}

asio::ip::address Group::local_end() const {
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    const bool elsewhere = table_.members[rank].host != table_.members[options_.rank].host;
    if (elsewhere && peers_[rank].connection != nullptr)
      return peers_[rank].connection->local().address();
  }
  return {};
}

void Group::received(uint32_t from, Type type, const std::string& payload) {
  if (closed_) return;
  peers_[from].unheard_queries = 0;
  switch (type) {
    case Type::kGather:
      return on_gather(from, payload);
    case Type::kSpread:
      return on_spread(from, payload);
    case Type::kGone:
      return on_gone(from, payload);
    case Type::kFailed:
      return on_failed(from, payload);
    case Type::kGoodbye:
      return on_goodbye(from, payload);
    case Type::kQuery:
      return on_query(from, payload);
    case Type::kAnswer:
      return on_answer(from, payload);
    default:
      return lost(from, "it broke the control protocol");
  }
}

void Group::lost(uint32_t rank, const std::string& why) {
  Peer& peer = peers_[rank];
  if (peer.connection == nullptr) return;
  peer.connection->finish();
  if (!peer.finished) {
    mark_gone(rank,
              Status(tbcclRemoteError, formatted("{} is gone: {} (noticed by rank {})", name(rank),
                                                 why, options_.rank)),
              options_.rank);
  }
  check_goodbye();
}

void Group::send(uint32_t rank, const std::string& bytes) {
  if (peers_[rank].connection != nullptr) peers_[rank].connection->send_frame(bytes);
}

void Group::flood(const std::string& bytes, uint32_t except) {
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (rank != except) send(rank, bytes);
  }
}

std::string Group::name(uint32_t rank) const {
  const std::string& host = table_.members[rank].name;
  return host.empty() ? formatted("rank {}", rank) : formatted("rank {} (on {})", rank, host);
}

void Group::close(std::function<void()> closed) {
  // Called when the last one of those that hold it lets go.
  const std::shared_ptr<void> last(nullptr, [closed = std::move(closed)](void*) {
    if (closed) closed();
  });
  for (const Peer& peer : peers_) {
    if (peer.connection != nullptr) peer.connection->finish([last] {});
  }
  if (closed_) return;
  closed_ = true;
  const Status ended(tbcclAborted, "the control connections of this rank were closed");
  link_timer_.cancel();
  gather_timer_.cancel();
  goodbye_timer_.cancel();
  if (door_ != nullptr) door_->close();
  for (Peer& peer : peers_) {
    if (peer.dialer != nullptr) peer.dialer->stop();
  }
  finish_link(ended);
  finish_gather(ended);
  finish_goodbye(ended);
  while (!queries_.empty()) finish_query(queries_.begin()->first);
}

}  // namespace tbccl::bootstrap
