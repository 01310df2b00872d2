// Which trunk carries the next frame, and how long frames are.
#include <algorithm>

#include "link/state.h"

namespace tbccl::link {
namespace {

constexpr double kUnknownRate = 1.0;   // bytes per ns; only ratios matter while nothing is known
constexpr uint64_t kFreeBytes = 4096;  // in flight and not counted: small frames stay together

double rate_of(const Trunk& trunk) { return trunk.rate > 0 ? trunk.rate : kUnknownRate; }

bool striped_up(const Peer& peer) {
  return std::any_of(peer.trunks.begin(), peer.trunks.end(),
                     [](const Trunk* t) { return t->up() && t->spec.striped; });
}

}  // namespace

// At least four segments, and what keeps the trunk busy for two round trips.
bool Links::State::room(const Peer& peer, const Trunk& trunk) const {
  if (trunk.blocked) return false;
  int up = 0;
  for (const Trunk* t : peer.trunks) up += t->up();
  if (up < 2) return true;
  const double two_trips = 2 * rate_of(trunk) * trunk.least_rtt;
  const uint64_t limit = std::max<uint64_t>(4ull * trunk.context->properties.best_payload,
                                            static_cast<uint64_t>(two_trips));
  return trunk.inflight_bytes < limit;
}

// Shared memory holds a frame until the peer has read it, and nothing stands behind it on the way.
bool Links::State::may_hold(const Trunk& trunk, uint32_t length) const {
  return trunk.rate == 0 || trunk.held_bytes == 0 || trunk.context->transport->board != nullptr ||
         static_cast<double>(trunk.held_bytes + length) <= trunk.rate * kHeldTime;
}

// The trunk with the least expected finish time. If that one is full the frame waits for it:
// another would finish later still. A trunk that is late is passed over while there is another.
Trunk* Links::State::choose(Peer& peer, uint32_t length) const {
  const bool striped = striped_up(peer);
  Trunk* best = nullptr;
  double best_finish = 0;
  for (Trunk* trunk : peer.trunks) {
    if (!trunk->up() || trunk->spec.striped != striped) continue;
    const uint64_t bytes = trunk->inflight_bytes < kFreeBytes ? 0 : trunk->inflight_bytes;
    const double finish =
        static_cast<double>(bytes + length) / rate_of(*trunk) + trunk->least_rtt / 2;
    const bool better = best == nullptr || (best->suspect && !trunk->suspect) ||
                        (best->suspect == trunk->suspect && finish < best_finish);
    if (!better || (best != nullptr && trunk->suspect && !best->suspect)) continue;
    best = trunk;
    best_finish = finish;
  }
  return best != nullptr && room(peer, *best) ? best : nullptr;
}

// With several trunks a message is cut so that each gets about four pieces of it. On a slow one a
// frame does not take longer than kFrameTime.
uint32_t Links::State::segment(const Peer& peer, uint64_t total) const {
  const bool striped = striped_up(peer);
  uint32_t best = UINT32_MAX, limit = UINT32_MAX, up = 0;
  bool narrow = false;
  double slowest = 0;
  for (const Trunk* trunk : peer.trunks) {
    // A frame keeps its length when it moves to another trunk, so every trunk must take it.
    limit = std::min(limit, trunk->context->properties.max_payload);
    if (!trunk->up() || trunk->spec.striped != striped) continue;
    ++up;
    narrow = narrow || trunk->narrow > 0;
    if (trunk->rate > 0) slowest = slowest > 0 ? std::min(slowest, trunk->rate) : trunk->rate;
    best = std::min(best, trunk->context->properties.best_payload);
  }
  if (options.segment_bytes != 0) best = options.segment_bytes;
  if (up > 1) {
    const uint64_t share = std::max<uint64_t>(total / (4ull * up), kMinSegment);
    best = static_cast<uint32_t>(std::min<uint64_t>(best, share));
  }
  if (slowest > 0) {
    const auto timely =
        static_cast<uint32_t>(std::min(slowest * kFrameTime, double{UINT32_MAX / 2}));
    best = std::min(best, std::max(timely, kMinSegment));
  }
  if (narrow) best = std::min(best, kNarrowSegment);
  best = std::min(best, limit);
  return std::max(best / 64 * 64, 64u);
}

// Called for the first acknowledgement of a frame that was sent once.
void Links::State::measure(Trunk& trunk, const Frame& frame) {
  const uint64_t time = now();
  const double sample = static_cast<double>(std::max<uint64_t>(time - frame.sent_at, 1));
  if (trunk.rtt == 0) {
    trunk.rtt = sample;
    trunk.rtt_deviation = sample / 2;
    trunk.least_rtt = sample;
  } else {
    const double error = sample - trunk.rtt;
    trunk.rtt += error / 8;
    trunk.rtt_deviation += ((error < 0 ? -error : error) - trunk.rtt_deviation) / 4;
    // Of a slow trunk's long frame most is the time that its bytes take, which choose() counts
    // itself.
    const double bytes = trunk.rate > 0 ? frame.header.length / trunk.rate : 0;
    trunk.least_rtt = std::min(trunk.least_rtt, std::max(sample - bytes, sample / 4));
  }
  trunk.retransmit_backoff = 1;
  if (trunk.narrow > 0) --trunk.narrow;
  // The rate counts only while the trunk is kept busy: transmit() restarts the clock otherwise.
  trunk.rate_bytes += frame.header.length;
  const uint64_t span = time - trunk.rate_since;
  if (trunk.rate_since != 0 && span >= kMillisecond && trunk.rate_bytes >= 256 * 1024) {
    const double measured = static_cast<double>(trunk.rate_bytes) / static_cast<double>(span);
    trunk.rate = trunk.rate == 0 ? measured : trunk.rate + (measured - trunk.rate) / 4;
    // What was sent first may still be in buffers on the way (a shaper's burst passes at any rate),
    // so that it shows more than the trunk can keep up.
    if (trunk.rate_settled) {
      trunk.settled_ns += span;
      trunk.counters.rate_bytes += trunk.rate_bytes;
      trunk.counters.rate =
          static_cast<double>(trunk.counters.rate_bytes) / static_cast<double>(trunk.settled_ns);
    }
    trunk.rate_settled = true;
    trunk.rate_since = time;
    trunk.rate_bytes = 0;
  }
}

}  // namespace tbccl::link
