// What is told to everybody: that a rank is gone, has failed, or has said goodbye. Each notice is
// passed on once, to every neighbour but the one it came from.

#include "base/formatted.h"
#include "base/log.h"
#include "bootstrap/group.h"
#include "bootstrap/root.h"
#include "bootstrap/timer.h"

namespace tbccl::bootstrap {
namespace {

// How long the ends of stream are waited for after everything has been said.
constexpr uint64_t kPartingLimit = 2 * kSecond;

}  // namespace

void Group::mark_gone(uint32_t rank, const Status& cause, uint32_t from) {
  Peer& peer = peers_[rank];
  if (closed_ || peer.gone || peer.finished) return;
  peer.gone = true;
  peer.cause = cause;
  log::info("control: {}", cause.text());
  const Notice notice{rank, 0, static_cast<uint32_t>(cause.code()), cause.text()};
  flood(frame(Type::kGone, notice.encode()), from);
  // Others are sure; what this rank may still hear of it must not contradict them.
  if (peer.connection != nullptr) peer.connection->finish();
  if (options_.events != nullptr) options_.events->peer_gone(static_cast<int>(rank), cause);
  finish_link(cause);
  finish_gather(cause);
  check_queries();
  check_goodbye();
}

void Group::on_gone(uint32_t from, const std::string& payload) {
  Notice notice;
  if (!Notice::parse(payload, &notice) || notice.rank >= options_.size)
    return lost(from, "it broke the control protocol");
  if (notice.rank == options_.rank) {
    log::warn("control: the others take this rank for gone ({})", notice.text);
    return;
  }
  mark_gone(notice.rank, Status(tbcclRemoteError, notice.text), from);
}

void Group::announce(uint32_t comm, const Status& cause) {
  if (closed_ || !failed_.emplace(options_.rank, comm).second) return;
  const Notice notice{options_.rank, comm, static_cast<uint32_t>(cause.code()), cause.text()};
  flood(frame(Type::kFailed, notice.encode()), options_.rank);
}

void Group::on_failed(uint32_t from, const std::string& payload) {
  Notice notice;
  if (!Notice::parse(payload, &notice) || notice.rank >= options_.size)
    return lost(from, "it broke the control protocol");
  if (notice.rank == options_.rank || !failed_.emplace(notice.rank, notice.comm).second) return;
  flood(frame(Type::kFailed, payload), from);
  if (options_.events != nullptr) {
    options_.events->peer_failed(static_cast<int>(notice.rank), notice.comm,
                                 Status(static_cast<tbcclResult_t>(notice.code), notice.text));
  }
}

void Group::goodbye(uint64_t deadline_ns, Done done) {
  if (closed_ || goodbye_done_ != nullptr) {
    return done(Status(tbcclInternalError, "goodbye was said twice at once, or after the end"));
  }
  if (!interrupted_.ok()) return done(interrupted_);
  goodbye_done_ = std::move(done);
  set_timer(goodbye_timer_, deadline_ns, [self = shared_from_this()] {
    self->finish_goodbye(
        Status(tbcclTimeout, formatted("{} did not say goodbye in time",
                                       name_ranks(self->options_.size, [&](uint32_t r) {
                                         const Peer& p = self->peers_[r];
                                         return r != self->options_.rank && !p.gone && !p.finished;
                                       }))));
  });
  if (!said_goodbye_) {
    said_goodbye_ = true;
    const Notice notice{options_.rank, 0, 0, ""};
    flood(frame(Type::kGoodbye, notice.encode()), options_.rank);
  }
  check_goodbye();
}

void Group::interrupt(const Status& cause) {
  if (!interrupted_.ok()) return;
  interrupted_ = cause;
  finish_goodbye(cause);
}

void Group::on_goodbye(uint32_t from, const std::string& payload) {
  Notice notice;
  if (!Notice::parse(payload, &notice) || notice.rank >= options_.size)
    return lost(from, "it broke the control protocol");
  Peer& peer = peers_[notice.rank];
  if (notice.rank == options_.rank || peer.gone || peer.finished) return;
  peer.finished = true;
  flood(frame(Type::kGoodbye, payload), from);
  if (options_.events != nullptr) options_.events->peer_finished(static_cast<int>(notice.rank));
  check_queries();
  check_goodbye();
}

void Group::check_goodbye() {
  if (goodbye_done_ == nullptr) return;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (rank != options_.rank && !peers_[rank].gone && !peers_[rank].finished) return;
  }
  if (!parting_) part();
  if (all_left()) finish_goodbye(goodbye_result());
}

// Everyone has said goodbye. Each end finishes its stream after its last word and waits for the
// other's: closing at once could reset the connection under words that a neighbour has to pass on.
void Group::part() {
  parting_ = true;
  for (const Peer& peer : peers_) {
    if (peer.connection == nullptr || !peer.connection->open()) continue;
    peer.connection->when_drained([connection = peer.connection] { connection->shutdown_send(); });
  }
  set_timer(goodbye_timer_, after(kPartingLimit),
            [self = shared_from_this()] { self->finish_goodbye(self->goodbye_result()); });
}

bool Group::all_left() const {
  for (const Peer& peer : peers_) {
    if (peer.connection != nullptr && peer.connection->open()) return false;
  }
  return true;
}

Status Group::goodbye_result() const {
  for (const Peer& peer : peers_) {
    if (peer.gone) return peer.cause;
  }
  return {};
}

void Group::finish_goodbye(const Status& status) {
  if (goodbye_done_ == nullptr) return;
  goodbye_timer_.cancel();
  const Done done = std::move(goodbye_done_);
  goodbye_done_ = nullptr;
  done(status);
}

}  // namespace tbccl::bootstrap
