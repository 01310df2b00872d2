#include "bootstrap/root.h"

#include <algorithm>

#include "base/formatted.h"
#include "base/log.h"
#include "bootstrap/timer.h"

namespace tbccl::bootstrap {
namespace {

constexpr uint32_t kMaxNamed = 16;
constexpr uint64_t kLinger = 2 * kSecond;  // for members to read what they were sent

std::string who(const Hello& hello) {
  return formatted("process {} on {}", hello.process, hello.name);
}

}  // namespace

std::string name_ranks(uint32_t size, const std::function<bool(uint32_t)>& missing) {
  std::vector<uint32_t> named;
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (!missing(rank)) continue;
    if (count++ < kMaxNamed) named.push_back(rank);
  }
  std::string text = count == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < named.size(); ++i) {
    const bool last = i + 1 == named.size() && count <= kMaxNamed;
    text += formatted("{}{}", i == 0 ? "" : last ? " and " : ", ", named[i]);
  }
  if (count > kMaxNamed) text += formatted(" and {} more", count - kMaxNamed);
  return text;
}

std::string seconds_text(uint64_t ns) {
  if (ns >= static_cast<uint64_t>(INT64_MAX)) return "the time allowed";
  return formatted("{:.3g} s", static_cast<double>(ns) / 1e9);
}

Door::Host Root::host() {
  const std::weak_ptr<Root> weak = weak_from_this();
  Door::Host host;
  host.judge = [weak](const Hello& hello, Welcome* welcome) {
    const auto self = weak.lock();
    if (self == nullptr || hello.purpose != Purpose::kRendezvous) return false;
    if (self->options_.fixed_session && hello.session != self->options_.session) return false;
    welcome->session = self->options_.session;
    welcome->rank = kMaxRanks;
    return true;
  };
  host.enter = [weak](Guest guest) {
    if (const auto self = weak.lock()) self->enter(std::move(guest));
  };
  host.turned_away = [weak](const std::string& what) {
    if (const auto self = weak.lock()) self->turned_away_ = what;
    log::warn("rendezvous: {}", what);
  };
  return host;
}

Status Root::open(const asio::ip::address& at, uint16_t port) {
  door_ = std::make_shared<Door>(io_);
  if (Status s = door_->open(at, {port, port}, options_.authenticator, host()); !s.ok()) return s;
  opened();
  return {};
}

Status Root::open_all(const PortRange& range) {
  door_ = std::make_shared<Door>(io_);
  if (Status s = door_->open_all(range, options_.authenticator, host()); !s.ok()) return s;
  opened();
  return {};
}

void Root::opened() {
  set_timer(timer_, options_.deadline_ns, [self = shared_from_this()] {
    self->fail(Status(tbcclTimeout, self->missing_text()));
  });
}

std::string Root::missing_text() const {
  const auto absent = [this](uint32_t r) { return slots_.count(r) == 0 && left_.count(r) == 0; };
  const auto gave_up = [this](uint32_t r) { return left_.count(r) != 0; };
  std::string text;
  if (options_.size == 0) {
    text = formatted("no rank came to {}", options_.where);
  } else if (slots_.size() + left_.size() < options_.size) {
    text = formatted("{} of {} did not come to {}", name_ranks(options_.size, absent),
                     options_.size, options_.where);
  } else {
    text = formatted("{} of {} did not stay at {} until the others had come",
                     name_ranks(options_.size, gave_up), options_.size, options_.where);
  }
  text += formatted(
      " within {}; check that every process was started, that {} the same everywhere and that the "
      "port is not filtered",
      seconds_text(options_.limit_ns), options_.variable);
  if (!turned_away_.empty()) text += formatted(" ({})", turned_away_);
  return text;
}

void Root::enter(Guest guest) {
  const Hello& hello = guest.hello;
  const auto mismatch = [&](const std::string& text) {
    fail(Status(tbcclInvalidUsage, text));
    refuse(guest.connection);
  };
  if (state_ == State::kFailed) return refuse(guest.connection);
  if (state_ != State::kWaiting) return guest.connection->close();
  if (options_.size == 0) options_.size = hello.size;
  if (hello.size != options_.size) {
    const uint32_t others = options_.size;
    options_.size = std::min(others, hello.size);  // more are not waited for
    return mismatch(
        formatted("rank {} ({}) was started for {} ranks, the others for {}; the number of ranks "
                  "(TBCCL_SIZE) must be the same everywhere",
                  hello.rank, who(hello), hello.size, others));
  }
  const auto there = slots_.find(hello.rank);
  if (there != slots_.end() && there->second.hello.instance != hello.instance) {
    return mismatch(formatted(
        "rank {} came twice: {} and {}; every process needs a rank (TBCCL_RANK) of its own",
        hello.rank, who(there->second.hello), who(hello)));
  }
  if (there != slots_.end()) there->second.connection->close();
  const uint32_t rank = hello.rank;
  left_.erase(rank);
  Slot& slot = slots_[rank];
  slot = {std::move(guest.connection), guest.nonces, std::move(guest.hello)};
  Connection::Handler handler;
  const std::weak_ptr<Root> weak = weak_from_this();
  handler.frame = [weak, rank](Type type, const std::string&) {
    if (const auto self = weak.lock()) self->received(rank, type);
  };
  handler.closed = [weak, rank, instance = slot.hello.instance](const std::string&) {
    if (const auto self = weak.lock()) self->left(rank, instance);
  };
  slot.connection->set_handler(std::move(handler));
  if (slots_.size() == options_.size) tell();
}

void Root::received(uint32_t rank, Type type) {
  if (type != Type::kAsk || state_ != State::kWaiting) return;
  Writer w;
  w.text(missing_text());
  slots_.at(rank).connection->send(Type::kMissing, w.take());
}

void Root::left(uint32_t rank, const Bytes16& instance) {
  const auto it = slots_.find(rank);
  if (it == slots_.end() || it->second.hello.instance != instance) return;
  slots_.erase(it);
  if (state_ == State::kWaiting) left_.insert(rank);
  if (state_ != State::kWaiting) end_if_done();
}

void Root::tell() {
  state_ = State::kTold;
  Table table;
  table.session = options_.session;
  for (const auto& [rank, slot] : slots_) {
    const Hello& h = slot.hello;
    table.members.push_back({h.host, h.name, h.local, h.endpoints});
  }
  Sealed sealed;
  sealed.body = table.encode();
  for (const auto& [rank, slot] : slots_) {
    sealed.proof = options_.authenticator.prove("tbccl table", slot.nonces, sealed.body);
    slot.connection->send(Type::kTable, sealed.encode());
  }
  door_->close();
  linger(kLinger);
}

void Root::fail(const Status& cause) {
  if (state_ != State::kWaiting) return;
  state_ = State::kFailed;
  cause_ = cause;
  refused_ = static_cast<uint32_t>(slots_.size());
  const Refusal refusal{static_cast<uint32_t>(cause.code()), cause.text()};
  const std::string bytes = frame(Type::kRefused, refusal.encode());
  // The members close when they have read it.
  for (const auto& [rank, slot] : slots_) slot.connection->send_frame(bytes);
  // Who is late must hear the reason too, instead of knocking until its deadline.
  const uint64_t now = now_ns();
  const uint64_t left = options_.deadline_ns > now ? options_.deadline_ns - now : 0;
  linger(std::max(kLinger, std::min(left, options_.late_ns)));
}

void Root::refuse(const std::shared_ptr<Connection>& connection) {
  ++refused_;
  const Refusal refusal{static_cast<uint32_t>(cause_.code()), cause_.text()};
  connection->close_after(frame(Type::kRefused, refusal.encode()));
  end_if_done();
}

void Root::linger(uint64_t ns) {
  set_timer(timer_, after(ns), [self = shared_from_this()] { self->close(); });
  end_if_done();
}

void Root::end_if_done() {
  if (!slots_.empty()) return;
  const bool expects_more =
      state_ == State::kFailed && cause_.code() != tbcclTimeout && refused_ < options_.size;
  // Later: the caller may still use what close() frees.
  if (!expects_more) asio::post(io_, [self = shared_from_this()] { self->close(); });
}

void Root::close() {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  timer_.cancel();
  door_->close();
  for (const auto& [rank, slot] : slots_) slot.connection->close();
  slots_.clear();
  const auto ended = std::move(options_.ended);
  options_.ended = nullptr;
  if (ended) ended();
}

}  // namespace tbccl::bootstrap
