// The all-gather of set-up: up the tree to rank 0, and down again.

#include "base/formatted.h"
#include "bootstrap/group.h"
#include "bootstrap/neighbours.h"
#include "bootstrap/root.h"
#include "bootstrap/timer.h"

namespace tbccl::bootstrap {

void Group::all_gather(std::string mine, uint64_t deadline_ns, Gathered done) {
  GatherState& g = gather_;
  if (g.active) {
    return done(
        Status(tbcclInternalError, "two all-gathers of the set-up at once on one control plane"),
        {});
  }
  if (closed_ || !g.broken.ok())
    return done(closed_ ? Status(tbcclAborted, "closed") : g.broken, {});
  if (mine.size() > kMaxFrameBytes / options_.size - 64) {
    return done(
        Status(tbcclInternalError,
               formatted("{} bytes are too many for an all-gather of the set-up among {} ranks",
                         mine.size(), options_.size)),
        {});
  }
  g.active = true;
  g.sent = false;
  ++g.sequence;
  g.blobs.clear();
  g.heard.clear();
  g.done = std::move(done);
  g.blobs.emplace(options_.rank, std::move(mine));
  for (const Peer& peer : peers_) {
    if (peer.gone) return finish_gather(peer.cause);
  }
  set_timer(gather_timer_, deadline_ns, [self = shared_from_this()] {
    self->finish_gather(Status(tbcclTimeout, self->unheard_text()));
  });
  const auto early = std::move(g.early);
  g.early.clear();
  for (const auto& [child, blobs] : early) {
    if (!take_gather(child, blobs)) return lost(child, "it broke the control protocol");
  }
  advance_gather();
}

void Group::on_gather(uint32_t from, const std::string& payload) {
  Blobs blobs;
  const bool child = from != 0 && tree_parent(from) == options_.rank;
  if (!child || !Blobs::parse(payload, &blobs)) return lost(from, "it broke the control protocol");
  // A child is at most one ahead: it gets no further without what this rank sends down.
  if (!gather_.active) {
    if (gather_.early.size() < peers_.size()) gather_.early[from] = std::move(blobs);
    return;
  }
  if (!take_gather(from, std::move(blobs))) return lost(from, "it broke the control protocol");
  advance_gather();
}

bool Group::take_gather(uint32_t child, Blobs blobs) {
  if (blobs.sequence != gather_.sequence || !gather_.heard.insert(child).second) return false;
  for (auto& [rank, bytes] : blobs.blobs) {
    if (rank >= options_.size || !gather_.blobs.emplace(rank, std::move(bytes)).second)
      return false;
  }
  return true;
}

void Group::advance_gather() {
  GatherState& g = gather_;
  if (!g.active || g.sent || g.heard.size() < tree_children(options_.rank, options_.size).size())
    return;
  g.sent = true;
  Blobs blobs;
  blobs.sequence = g.sequence;
  blobs.blobs.assign(g.blobs.begin(), g.blobs.end());
  const std::string payload = blobs.encode();
  if (options_.rank != 0) return send(tree_parent(options_.rank), frame(Type::kGather, payload));
  if (g.blobs.size() != options_.size) {
    return finish_gather(
        Status(tbcclInternalError, "the all-gather of the set-up lost a rank's part"));
  }
  spread(frame(Type::kSpread, payload));
  finish_gather({});
}

void Group::on_spread(uint32_t from, const std::string& payload) {
  GatherState& g = gather_;
  Blobs blobs;
  const bool parent = options_.rank != 0 && tree_parent(options_.rank) == from;
  if (!parent || !Blobs::parse(payload, &blobs)) return lost(from, "it broke the control protocol");
  if (!g.active) return;  // it came after this rank's deadline
  std::map<uint32_t, std::string> all;
  for (auto& [rank, bytes] : blobs.blobs) all.emplace(rank, std::move(bytes));
  const bool whole = all.size() == options_.size && all.rbegin()->first == options_.size - 1;
  if (!g.sent || blobs.sequence != g.sequence || !whole)
    return lost(from, "it broke the control protocol");
  spread(frame(Type::kSpread, payload));
  g.blobs = std::move(all);
  finish_gather({});
}

void Group::spread(const std::string& bytes) {
  for (const uint32_t child : tree_children(options_.rank, options_.size)) send(child, bytes);
}

void Group::finish_gather(const Status& status) {
  GatherState& g = gather_;
  if (!g.active) return;
  g.active = false;
  gather_timer_.cancel();
  if (!status.ok()) g.broken = status;  // the ranks are not at the same call any more
  std::vector<std::string> all;
  if (status.ok()) {
    for (auto& [rank, bytes] : g.blobs) all.push_back(std::move(bytes));
  }
  g.blobs.clear();
  const Gathered done = std::move(g.done);
  g.done = nullptr;
  done(status, std::move(all));
}

std::string Group::unheard_text() const {
  if (gather_.sent) {
    return formatted(
        "rank {} waited in vain for {}, or for a rank that this one waits for, while a "
        "communicator was "
        "being set up",
        options_.rank, name(tree_parent(options_.rank)));
  }
  const auto missing = [this](uint32_t r) {
    return r != 0 && tree_parent(r) == options_.rank && gather_.heard.count(r) == 0;
  };
  return formatted(
      "rank {} waited in vain for {}, or for ranks that these wait for, while a communicator was "
      "being "
      "set up; every rank must make the same communicators in the same order",
      options_.rank, name_ranks(options_.size, missing));
}

}  // namespace tbccl::bootstrap
