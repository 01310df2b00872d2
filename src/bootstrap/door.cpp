#include "bootstrap/door.h"

#include "base/formatted.h"
#include "bootstrap/dialer.h"
#include "bootstrap/timer.h"

namespace tbccl::bootstrap {
namespace {

constexpr size_t kMaxStrangers = 512;
constexpr uint64_t kStrangerLimit = 5 * kSecond;
constexpr uint64_t kAcceptPause = 50 * kMillisecond;  // after "too many open files"
constexpr int kAcceptsAtOnce = 64;

}  // namespace

struct Door::Stranger {
  explicit Stranger(asio::io_context& io) : limit(io) {}
  enum class State { kSilent, kOpened, kWelcomed } state = State::kSilent;
  std::shared_ptr<Connection> connection;
  asio::steady_timer limit;
  Nonces nonces;
  Hello hello;
};

Status Door::listen(const asio::ip::address& at, const PortRange& range) {
  std::error_code error;
  uint32_t port = range.first;
  for (; port <= range.last; ++port) {
    const TcpEndpoint where(at, static_cast<uint16_t>(port));
    error = listen_at(where, &acceptor_);
    if (!error) {
      port_ = acceptor_.local_endpoint(error).port();
      return {};
    }
    if (error != asio::error::address_in_use) break;
  }
  const TcpEndpoint where(at, range.first);
  const std::string ports = range.first == range.last ? "" : formatted(" to {}", range.last);
  const char* what_to_do = "";
  if (error == asio::error::address_in_use)
    what_to_do = "; another program uses the port, choose another";
  if (error.value() == EADDRNOTAVAIL)
    what_to_do = "; the address is not one of this host's, rank 0 must run on the host that has it";
  return Status(tbcclSystemError, formatted("cannot listen at {}{}: {}{}", endpoint_text(where),
                                            ports, error.message(), what_to_do));
}

Status Door::open(const asio::ip::address& at, const PortRange& range, Authenticator authenticator,
                  Host host) {
  if (Status status = listen(at, range); !status.ok()) return status;
  authenticator_ = authenticator;
  host_ = std::move(host);
  wait();
  return {};
}

Status Door::open_all(const PortRange& range, Authenticator authenticator, Host host) {
  Status status = open(asio::ip::address_v6::any(), range, authenticator, host);
  if (!status.ok())
    status = open(asio::ip::address_v4::any(), range, authenticator, std::move(host));
  return status;
}

void Door::close() {
  std::error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  const auto strangers = std::move(strangers_);
  strangers_.clear();
  for (const auto& stranger : strangers) {
    stranger->limit.cancel();
    stranger->connection->close();
  }
  host_ = {};
}

void Door::wait() {
  acceptor_.async_wait(Acceptor::wait_read, [self = shared_from_this()](std::error_code error) {
    if (error || !self->acceptor_.is_open()) return;
    self->accept_all();
  });
}

void Door::accept_all() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Socket socket(io_);
    const std::error_code error = accept_socket(acceptor_, &socket);
    if (error == asio::error::would_block) break;
    if (error) {
      return set_timer(retry_, after(kAcceptPause), [self = shared_from_this()] { self->wait(); });
    }
    if (strangers_.size() >= kMaxStrangers) drop(strangers_.front());
    set_liveness(socket);
    const auto stranger = std::make_shared<Stranger>(io_);
    stranger->connection = std::make_shared<Connection>(std::move(socket), kMaxStrangerBytes);
    strangers_.push_back(stranger);
    set_timer(stranger->limit, after(kStrangerLimit),
              [self = shared_from_this(), stranger] { self->drop(stranger); });
    Connection::Handler handler;
    handler.frame = [self = shared_from_this(), stranger](Type type, const std::string& payload) {
      self->received(stranger, type, payload);
    };
    handler.closed = [self = shared_from_this(), stranger](const std::string&) {
      self->drop(stranger);
    };
    handler.foreign = [self = shared_from_this(), stranger](const FrameHeader& header) {
      self->refuse(
          stranger,
          formatted(
              "this process speaks version {} of the protocol and the one it asked version {}; "
              "use the same tbccl everywhere",
              header.version, kWireVersion),
          formatted("it speaks version {} of the protocol", header.version));
    };
    stranger->connection->start(std::move(handler));
  }
  wait();
}

void Door::received(const std::shared_ptr<Stranger>& stranger, Type type,
                    const std::string& payload) {
  using State = Stranger::State;
  if (type == Type::kOpening && stranger->state == State::kSilent) return opened(stranger, payload);
  if (type == Type::kHello && stranger->state == State::kOpened) return greeted(stranger, payload);
  if (type != Type::kUse || stranger->state != State::kWelcomed) return drop(stranger);
  stranger->limit.cancel();
  strangers_.remove(stranger);
  Guest guest{stranger->connection, stranger->nonces, std::move(stranger->hello)};
  guest.connection->set_handler({});
  if (const auto enter = host_.enter) enter(std::move(guest));
}

void Door::opened(const std::shared_ptr<Stranger>& stranger, const std::string& payload) {
  Opening opening, challenge;
  if (!Opening::parse(payload, &opening) ||
      !random_bytes(challenge.nonce.data(), challenge.nonce.size())) {
    return drop(stranger);
  }
  challenge.secured = authenticator_.secured();
  if (opening.secured != challenge.secured) {
    return refuse(stranger,
                  formatted("this process was refused: {}",
                            secret_mismatch_text(challenge.secured, opening.secured)),
                  secret_mismatch_text(opening.secured, challenge.secured));
  }
  stranger->nonces = {opening.nonce, challenge.nonce};
  stranger->state = Stranger::State::kOpened;
  stranger->connection->send(Type::kChallenge, challenge.encode());
}

void Door::greeted(const std::shared_ptr<Stranger>& stranger, const std::string& payload) {
  Sealed sealed;
  if (!Sealed::parse(payload, kMaxStrangerBytes, &sealed)) return drop(stranger);
  if (!authenticator_.check("tbccl hello", stranger->nonces, sealed)) {
    return refuse(stranger,
                  "this process was refused: its TBCCL_SECRET differs from that of the others",
                  "its TBCCL_SECRET differs");
  }
  Welcome welcome;
  if (!Hello::parse(sealed.body, &stranger->hello) || !host_.judge(stranger->hello, &welcome)) {
    return drop(stranger);
  }
  Sealed reply;
  reply.body = welcome.encode();
  reply.proof = authenticator_.prove("tbccl welcome", stranger->nonces, reply.body);
  stranger->state = Stranger::State::kWelcomed;
  stranger->connection->send(Type::kWelcome, reply.encode());
}

void Door::refuse(const std::shared_ptr<Stranger>& stranger, const std::string& text,
                  const std::string& note) {
  const std::string from = address_text(stranger->connection->remote());
  stranger->limit.cancel();
  strangers_.remove(stranger);
  const Refusal refusal{tbcclInvalidUsage, text};
  stranger->connection->close_after(frame(Type::kRefused, refusal.encode()));
  if (const auto told = host_.turned_away)
    told(formatted("a process at {} was refused: {}", from, note));
}

void Door::drop(const std::shared_ptr<Stranger>& stranger) {
  stranger->limit.cancel();
  stranger->connection->close();
  strangers_.remove(stranger);
}

}  // namespace tbccl::bootstrap
