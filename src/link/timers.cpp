// What happens because time has passed.
#include <algorithm>

#include "base/formatted.h"
#include "base/log.h"
#include "link/state.h"

namespace tbccl::link {

void Links::State::run_timers() {
  const uint64_t time = now();
  timer_at = kNever;
  for (Peer* p : linked) {
    if (p->failed) continue;
    if (time >= p->ack_due) {
      p->ack_due = kNever;
      p->ack_now = true;  // goes out at the end of this progress()
    }
    arm(p->ack_due);
    for (auto& comm : p->comms) {
      if (comm->starved.empty()) continue;
      if (time >= comm->starved_since + kStarvedDelay) {
        ask_for_grants(*comm);
      } else {
        arm(comm->starved_since + kStarvedDelay);
      }
    }
    for (Trunk* trunk : p->trunks) {
      if (time >= trunk->redial_at && trunk->state == Trunk::State::kDown) dial(*trunk);
      if (trunk->state == Trunk::State::kDown) arm(trunk->redial_at);
      if (trunk->up() && !trunk->context->properties.reliable) check_retransmit(*trunk, time);
    }
    check_silence(*p, time);
    check_life(*p, time);
  }
}

// On a trunk that may lose frames: what has not been acknowledged in time is sent again.
void Links::State::check_retransmit(Trunk& trunk, uint64_t time) {
  const double measured =
      trunk.rtt == 0 ? 4.0 * kMinRetransmit : trunk.rtt + 4 * trunk.rtt_deviation;
  const double bounded = std::clamp<double>(measured, kMinRetransmit, kMaxRetransmit);
  const auto timeout =
      std::min<uint64_t>(static_cast<uint64_t>(bounded) * trunk.retransmit_backoff, kMaxRetransmit);
  bool lost = false;
  for (Frame *frame = trunk.inflight.front(), *next = nullptr; frame != nullptr; frame = next) {
    next = frame->next;
    if (frame->acked || frame->held) continue;
    if (time < frame->sent_at + timeout) {
      arm(frame->sent_at + timeout);
      break;  // later ones were sent later
    }
    requeue(*trunk.peer, *frame);
    lost = true;
  }
  if (!lost) return;
  trunk.narrow = kNarrowFrames;
  trunk.retransmit_backoff = std::min(trunk.retransmit_backoff * 2, 64u);
}

// A trunk that acknowledges nothing for long, while the same peer is heard on another trunk,
// has failed. Half-way to that all trunks are asked for a sign of life. A peer that is silent
// everywhere is left alone.
void Links::State::check_silence(Peer& p, uint64_t time) {
  size_t up = 0;
  for (const Trunk* trunk : p.trunks) up += trunk->up();
  if (up == 0) return;
  bool ask = false;
  for (Trunk* trunk : p.trunks) {
    if (!trunk->up()) continue;
    Frame* oldest = trunk->inflight.front();
    while (oldest != nullptr && oldest->acked) oldest = oldest->next;
    if (oldest == nullptr && trunk->probed_at == 0) {
      trunk->suspect = false;
      continue;
    }
    const uint64_t quiet =
        oldest != nullptr ? std::max(oldest->sent_at, trunk->acked_at) : trunk->probed_at;
    const uint64_t limit = std::max<uint64_t>(static_cast<uint64_t>(4 * trunk->rtt), kMinSilence);
    arm(time + limit / 4);
    if (up < 2 || time < quiet + limit / 2) continue;
    trunk->suspect = true;
    const bool elsewhere = std::any_of(p.trunks.begin(), p.trunks.end(), [&](const Trunk* other) {
      return other != trunk && other->up() && other->heard_at >= quiet + limit / 2;
    });
    if (time >= quiet + limit && elsewhere) {
      trunk_lost(*trunk, false, false,
                 formatted("nothing was acknowledged for {} ms while the peer answers elsewhere",
                           (time - quiet) / kMillisecond));
      --up;
      continue;
    }
    ask = true;
  }
  if (!ask) return;
  for (Trunk* trunk : p.trunks) {
    if (!trunk->up() || trunk->blocked) continue;
    if (trunk->probed_at == 0) trunk->probed_at = time;
    send_ack(p, *trunk, true);
  }
}

// A peer without any trunk is given up after a while.
void Links::State::check_life(Peer& p, uint64_t time) {
  if (p.without_since == kNever || p.finished) return;
  const uint64_t grace = !p.was_up ? options.connect_timeout_ns : p.gone ? kGoneGrace : kGrace;
  if (time < p.without_since + grace) {
    arm(p.without_since + grace);
    return;
  }
  std::string text;
  for (const Trunk* trunk : p.trunks) {
    if (!text.empty()) text += "; ";
    text += formatted("{}: {}", trunk->spec.name,
                      trunk->last_error.empty() ? "never connected" : trunk->last_error);
  }
  fail(p,
       Status(tbcclRemoteError,
              formatted("rank {} cannot be reached {} ({}): check that its process runs and that "
                        "the cables and addresses are right",
                        p.rank, p.was_up ? "any more" : "within TBCCL_CONNECT_TIMEOUT", text)),
       true);
}

}  // namespace tbccl::link
