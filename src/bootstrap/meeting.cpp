#include "bootstrap/meeting.h"

#include <unistd.h>

#include "base/formatted.h"
#include "bootstrap/timer.h"
#include "bootstrap/unique_id.h"
#include "topology/host.h"

namespace tbccl::bootstrap {
namespace {

constexpr size_t kMaxResolved = 16;
constexpr uint64_t kResolveAgain = kSecond;
// The root speaks first at the deadline, because it knows who is missing.
constexpr uint64_t kRootFirst = kSecond;
// How long rank 0's error waits for late ranks, so that they hear it too.
constexpr uint64_t kLateRanks = 5 * kSecond;

std::vector<Endpoint> to_endpoints(const asio::ip::tcp::resolver::results_type& results) {
  std::vector<Endpoint> list;
  for (const auto& entry : results) {
    if (list.size() < kMaxResolved) list.push_back(from_asio(entry.endpoint()));
  }
  return list;
}

}  // namespace

Meeting::Meeting(asio::io_context& io, Options options)
    : io_(io), options_(std::move(options)), deadline_(io), ask_(io), retry_(io), resolver_(io) {}

void Meeting::begin(std::string where, std::string variable, Done done) {
  where_ = std::move(where);
  variable_ = std::move(variable);
  done_ = std::move(done);
  const uint64_t deadline = options_.deadline_ns;
  const uint64_t now = now_ns();
  if (deadline > now && deadline != kNever) {
    const uint64_t margin = std::min(kSecond, (deadline - now) / 8);
    set_timer(ask_, deadline - margin, [self = shared_from_this()] { self->ask(); });
  }
}

void Meeting::at_address(const HostPort& where, Done done) {
  begin(formatted("{}:{}",
                  where.host.find(':') == std::string::npos ? where.host : "[" + where.host + "]",
                  where.port),
        "TBCCL_RENDEZVOUS is", std::move(done));
  std::error_code error;
  const asio::ip::address literal = asio::ip::make_address(where.host, error);
  const bool literal_given = !error;
  const bool root_here = options_.rank == 0;
  uint64_t deadline = options_.deadline_ns;
  if (root_here && deadline < kNever - kRootFirst) deadline += kRootFirst;
  set_timer(deadline_, deadline, [self = shared_from_this()] { self->run_out(); });
  if (root_here) {
    // A name may mean another address on other hosts (a loopback one here, often): all are listened
    // at.
    const asio::ip::address at = literal_given ? literal : asio::ip::address();
    if (Status s = open_root(at, where.port); !s.ok()) return finish(s);
    asio::ip::address self_at = at;
    if (!literal_given || at.is_unspecified()) self_at = asio::ip::address_v4::loopback();
    return dial({TcpEndpoint(self_at, where.port)});
  }
  if (literal_given) return dial({TcpEndpoint(literal, where.port)});
  resolve(where);
}

Status Meeting::open_root(const asio::ip::address& at, uint16_t port) {
  Root::Options root;
  root.size = options_.size;
  if (!random_bytes(root.session.data(), root.session.size())) {
    return Status(tbcclSystemError, "the system gives no random bytes");
  }
  root.deadline_ns = options_.deadline_ns;
  root.limit_ns = options_.limit_ns;
  root.late_ns = kLateRanks;
  root.where = where_;
  root.variable = variable_;
  root.authenticator = options_.authenticator;
  root.ended = [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->root_ended_ = true;
    if (self->failing_) self->report(self->failure_);
  };
  root_ = std::make_shared<Root>(io_, std::move(root));
  Status status = at.is_unspecified() ? root_->open_all({port, port}) : root_->open(at, port);
  if (!status.ok()) root_.reset();
  return status;
}

void Meeting::at_root(const IdContent& id, Done done) {
  begin("the process that made the unique id", "the id is", std::move(done));
  session_ = id.session;
  session_known_ = true;
  set_timer(deadline_, options_.deadline_ns, [self = shared_from_this()] { self->run_out(); });
  std::vector<Endpoint> endpoints = id.endpoints;
  const bool same_host = id.host == host_hash(topology::host_identity());
  if (same_host) {
    for (const LocalAddress& a : local_addresses("")) {
      if (is_loopback(a.endpoint)) endpoints.push_back(a.endpoint);
    }
  }
  for (Endpoint& e : endpoints) e.port = id.port;
  dial(dial_order(endpoints, same_host));
}

void Meeting::resolve(const HostPort& where) {
  resolver_.async_resolve(
      where.host, std::to_string(where.port), asio::ip::tcp::resolver::numeric_service,
      [self = shared_from_this(), where](std::error_code error,
                                         const asio::ip::tcp::resolver::results_type& results) {
        if (self->done_ == nullptr || self->failing_) return;
        if (!error && !results.empty()) {
          // Here a name's loopback addresses mean this host, whatever rank 0's is.
          std::vector<TcpEndpoint> order;
          for (const Endpoint& e : to_endpoints(results)) order.push_back(to_asio(e));
          return self->dial(order);
        }
        self->name_error_ =
            formatted("the name {} could not be resolved: {}", where.host, error.message());
        set_timer(self->retry_, after(kResolveAgain), [self, where] { self->resolve(where); });
      });
}

void Meeting::dial(std::vector<TcpEndpoint> candidates) {
  candidates_ = std::move(candidates);
  name_error_.clear();
  Dialer::Plan plan;
  plan.candidates = candidates_;
  plan.authenticator = options_.authenticator;
  const std::weak_ptr<Meeting> weak = weak_from_this();
  plan.hello = [weak](const TcpEndpoint& local) {
    const auto self = weak.lock();
    return self == nullptr ? Hello() : self->hello(local);
  };
  plan.accept = [weak](const Welcome& welcome) {
    const auto self = weak.lock();
    if (self == nullptr || welcome.rank != kMaxRanks) return false;
    return !self->session_known_ || welcome.session == self->session_;
  };
  dialer_ = std::make_shared<Dialer>(io_);
  dialer_->start(std::move(plan), [weak](const Status& refusal, Dialed dialed) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    if (!refusal.ok()) return self->finish(refusal);
    self->reached(std::move(dialed));
  });
}

Hello Meeting::hello(const TcpEndpoint& local) const {
  Hello hello;
  hello.session = session_;
  hello.instance = options_.instance;
  hello.size = options_.size;
  hello.rank = options_.rank;
  hello.process = static_cast<uint32_t>(getpid());
  hello.host = topology::host_identity();
  hello.name = topology::host_name().substr(0, kMaxHostId);
  hello.local = address_text(local).substr(0, kMaxAddress);
  hello.endpoints = options_.endpoints(local.address());
  return hello;
}

void Meeting::reached(Dialed dialed) {
  connection_ = std::move(dialed.connection);
  nonces_ = dialed.nonces;
  result_.local = connection_->local().address();
  connection_->set_limit(kMaxFrameBytes);
  const std::weak_ptr<Meeting> weak = weak_from_this();
  Connection::Handler handler;
  handler.frame = [weak](Type type, const std::string& payload) {
    if (const auto self = weak.lock()) self->received(type, payload);
  };
  handler.closed = [weak](const std::string&) {
    const auto self = weak.lock();
    // The root's process ended, or had no room: it may come (again).
    if (self != nullptr && self->done_ != nullptr && !self->failing_) self->dial(self->candidates_);
  };
  connection_->set_handler(std::move(handler));
}

void Meeting::received(Type type, const std::string& payload) {
  if (done_ == nullptr || failing_) return;
  if (type == Type::kTable) return take_table(payload);
  if (type == Type::kMissing) {
    Reader r(payload);
    missing_ = r.blob(kMaxText);
    return;
  }
  Refusal refusal;
  if (type != Type::kRefused || !Refusal::parse(payload, &refusal)) {
    return finish(
        Status(tbcclRemoteError, formatted("what listens at {} broke the protocol", where_)));
  }
  const auto code =
      refusal.code == 0 ? tbcclInvalidUsage : static_cast<tbcclResult_t>(refusal.code);
  finish(Status(code, refusal.text));
}

void Meeting::take_table(const std::string& payload) {
  Sealed sealed;
  Table table;
  if (!Sealed::parse(payload, kMaxFrameBytes, &sealed) ||
      !options_.authenticator.check("tbccl table", nonces_, sealed) ||
      !Table::parse(sealed.body, &table) || table.members.size() != options_.size) {
    return finish(Status(tbcclRemoteError,
                         formatted("what listens at {} sent a table that is not right", where_)));
  }
  result_.table = std::move(table);
  finish({});
}

void Meeting::ask() {
  if (connection_ != nullptr) connection_->send(Type::kAsk, "");
}

void Meeting::run_out() {
  std::string text;
  if (!missing_.empty()) {
    text = missing_;
  } else if (root_ != nullptr) {
    text = root_->missing_text();
  } else if (connection_ != nullptr && connection_->open()) {
    text = formatted(
        "rank {} came to {}, but was told nothing within {}; look at the errors of the other ranks",
        options_.rank, where_, seconds_text(options_.limit_ns));
  } else {
    const std::string why = !name_error_.empty() ? name_error_
                            : dialer_ != nullptr ? dialer_->last_error()
                                                 : "";
    text = formatted(
        "rank {} could not reach {} within {} ({}); check that {} is running there, that {} the "
        "same "
        "everywhere and that the port is not filtered",
        options_.rank, where_, seconds_text(options_.limit_ns), why,
        session_known_ ? "that process" : "rank 0", variable_);
  }
  finish(Status(tbcclTimeout, text));
}

void Meeting::finish(const Status& status) {
  if (done_ == nullptr || failing_) return;
  deadline_.cancel();
  ask_.cancel();
  retry_.cancel();
  resolver_.cancel();
  if (dialer_ != nullptr) dialer_->stop();
  if (connection_ != nullptr) connection_->close();
  // A failed root still tells the others; the error is reported when it has.
  failing_ = !status.ok() && root_ != nullptr && !root_ended_;
  failure_ = status;
  if (failing_) return root_->abandon(status);
  report(status);
}

void Meeting::report(const Status& status) {
  const Done done = std::move(done_);
  done_ = nullptr;
  if (done) done(status, std::move(result_));
}

void Meeting::close() {
  if (root_ != nullptr) root_->close();
  root_.reset();
}

}  // namespace tbccl::bootstrap
