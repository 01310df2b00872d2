#include "bootstrap/dialer.h"

#include "base/formatted.h"
#include "bootstrap/timer.h"

namespace tbccl::bootstrap {
namespace {

constexpr uint64_t kStagger = 250 * kMillisecond;
constexpr uint64_t kFirstPause = 50 * kMillisecond;
constexpr uint64_t kLongestPause = kSecond;
constexpr uint64_t kAttemptLimit = 10 * kSecond;  // connecting and shaking hands

}  // namespace

struct Dialer::Attempt {
  Attempt(asio::io_context& io, const TcpEndpoint& where) : to(where), socket(io), limit(io) {}
  void close() {
    limit.cancel();
    std::error_code ignored;
    if (connection != nullptr) {
      connection->close();
    } else {
      socket.close(ignored);
    }
  }

  TcpEndpoint to;
  Socket socket;  // until it is connected
  asio::steady_timer limit;
  std::shared_ptr<Connection> connection;
  Nonces nonces;
  bool greeted = false;  // our hello is sent
};

std::string secret_mismatch_text(bool mine, bool theirs) {
  if (mine && !theirs) return "TBCCL_SECRET is set there and not here";
  if (theirs && !mine) return "TBCCL_SECRET is set here and not there";
  return "its TBCCL_SECRET differs";
}

void Dialer::start(Plan plan, Done done) {
  plan_ = std::move(plan);
  done_ = std::move(done);
  pause_ns_ = kFirstPause;
  begin_round();
}

void Dialer::stop() {
  next_.cancel();
  done_ = nullptr;
  for (const auto& attempt : attempts_) attempt->close();
  attempts_.clear();
}

void Dialer::begin_round() {
  candidate_ = 0;
  try_next();
}

void Dialer::try_next() {
  if (done_ == nullptr) return;
  if (candidate_ >= plan_.candidates.size()) {
    if (!attempts_.empty()) return;  // the last one to fail ends the round
    set_timer(next_, after(pause_ns_), [self = shared_from_this()] { self->begin_round(); });
    pause_ns_ = std::min(2 * pause_ns_, kLongestPause);
    return;
  }
  const auto attempt = std::make_shared<Attempt>(io_, plan_.candidates[candidate_++]);
  attempts_.push_back(attempt);
  set_timer(next_, after(kStagger), [self = shared_from_this()] { self->try_next(); });
  set_timer(attempt->limit, after(kAttemptLimit), [self = shared_from_this(), attempt] {
    self->failed(attempt, "no answer for ten seconds");
  });
  if (const std::error_code error = open_socket(attempt->to, &attempt->socket)) {
    return failed(attempt, error.message());
  }
  attempt->socket.async_connect(attempt->to,
                                [self = shared_from_this(), attempt](std::error_code error) {
                                  if (self->done_ == nullptr || !attempt->socket.is_open()) return;
                                  if (error) return self->failed(attempt, error.message());
                                  self->connected(attempt);
                                });
}

void Dialer::failed(const std::shared_ptr<Attempt>& attempt, const std::string& why) {
  attempt->close();
  if (done_ == nullptr) return;
  last_error_ = formatted("{}: {}", endpoint_text(attempt->to), why);
  attempts_.remove(attempt);
  // Later, not now: a chain of addresses that fail at once must not recurse.
  asio::post(io_, [self = shared_from_this()] { self->try_next(); });
}

void Dialer::connected(const std::shared_ptr<Attempt>& attempt) {
  std::error_code error;
  const TcpEndpoint local = attempt->socket.local_endpoint(error);
  // Two ends of one socket: TCP connects a port to itself when the system happens to choose for
  // this end the port that nobody listens on yet. It must be freed without a TIME_WAIT.
  if (!error && local == attempt->to) {
    attempt->socket.set_option(asio::socket_base::linger(true, 0), error);
    return failed(attempt, "Connection refused");
  }
  set_liveness(attempt->socket);
  attempt->connection = std::make_shared<Connection>(std::move(attempt->socket), kMaxStrangerBytes);
  Opening opening;
  if (!random_bytes(opening.nonce.data(), opening.nonce.size())) {
    return failed(attempt, "the system gives no random bytes");
  }
  attempt->nonces.connector = opening.nonce;
  opening.secured = plan_.authenticator.secured();
  Connection::Handler handler;
  handler.frame = [self = shared_from_this(), attempt](Type type, const std::string& payload) {
    self->received(attempt, type, payload);
  };
  handler.closed = [self = shared_from_this(), attempt](const std::string& why) {
    self->failed(attempt, why);
  };
  handler.foreign = [self = shared_from_this(), attempt](const FrameHeader& header) {
    self->give_up(
        Status(tbcclInvalidUsage,
               formatted("the process at {} speaks version {} of the protocol, this one {}; "
                         "use the same tbccl everywhere",
                         endpoint_text(attempt->to), header.version, kWireVersion)));
  };
  attempt->connection->start(std::move(handler));
  attempt->connection->send(Type::kOpening, opening.encode());
}

void Dialer::received(const std::shared_ptr<Attempt>& attempt, Type type,
                      const std::string& payload) {
  if (done_ == nullptr) return;
  if (type == Type::kRefused) return refused(attempt, payload);
  if (type == Type::kChallenge && !attempt->greeted) return challenged(attempt, payload);
  if (type == Type::kWelcome && attempt->greeted) return welcomed(attempt, payload);
  failed(attempt, "it answered out of order");
}

void Dialer::challenged(const std::shared_ptr<Attempt>& attempt, const std::string& payload) {
  Opening challenge;
  if (!Opening::parse(payload, &challenge)) return failed(attempt, "it answered with garbage");
  if (challenge.secured != plan_.authenticator.secured()) {
    return give_up(
        Status(tbcclInvalidUsage,
               formatted("the process at {} was not believed: {}", endpoint_text(attempt->to),
                         secret_mismatch_text(challenge.secured, plan_.authenticator.secured()))));
  }
  attempt->nonces.acceptor = challenge.nonce;
  attempt->greeted = true;
  Sealed hello;
  hello.body = plan_.hello(attempt->connection->local()).encode();
  hello.proof = plan_.authenticator.prove("tbccl hello", attempt->nonces, hello.body);
  attempt->connection->send(Type::kHello, hello.encode());
}

void Dialer::welcomed(const std::shared_ptr<Attempt>& attempt, const std::string& payload) {
  Sealed sealed;
  Welcome welcome;
  if (!Sealed::parse(payload, kMaxStrangerBytes, &sealed) ||
      !plan_.authenticator.check("tbccl welcome", attempt->nonces, sealed) ||
      !Welcome::parse(sealed.body, &welcome)) {
    return failed(attempt, "it could not prove that it knows the secret");
  }
  if (!plan_.accept(welcome)) return failed(attempt, "another process answered there");
  attempt->limit.cancel();
  attempt->connection->send(Type::kUse, "");
  attempts_.remove(attempt);
  const Done done = std::move(done_);
  Dialed dialed{attempt->connection, attempt->nonces, welcome};
  stop();
  done({}, std::move(dialed));
}

void Dialer::refused(const std::shared_ptr<Attempt>& attempt, const std::string& payload) {
  Refusal refusal;
  if (!Refusal::parse(payload, &refusal)) return failed(attempt, "it answered with garbage");
  const auto code =
      refusal.code == 0 ? tbcclInvalidUsage : static_cast<tbcclResult_t>(refusal.code);
  give_up(Status(code, refusal.text));
}

void Dialer::give_up(const Status& refusal) {
  const Done done = std::move(done_);
  stop();
  if (done) done(refusal, {});
}

}  // namespace tbccl::bootstrap
