// The verifier rejects what is wrong: every algorithm, damaged in one place at a time.
#include <functional>

#include "unit/algorithms/group.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using schedule::Collective;
using schedule::Dep;
using schedule::Kind;
using schedule::Phase;
using schedule::Schedule;

namespace {

using Group = std::vector<Schedule>;

Group make(const char* name, const Collective& c, int n) {
  return make_all(*algorithms::find(name), c, ranks(n));
}

// Applies `damage` to each phase of rank 1 in turn; it says whether it changed anything. Every
// change must be found.
void every_phase(const Group& good, const Collective& c, const char* what,
                 const std::function<bool(Phase&)>& damage) {
  for (size_t phase = 0; phase < good[1].phases.size(); phase++) {
    Group bad = good;
    if (!damage(bad[1].phases[phase])) continue;
    INFO(good[1].algorithm << ", in place " << c.in_place << ", phase " << phase << ": " << what);
    REQUIRE_FALSE(schedule::verify(bad, c).ok());
  }
}

bool is_message(const Phase& p) {
  return p.kind == Kind::kSend || p.kind == Kind::kRecv || p.kind == Kind::kRecvReduce;
}

}  // namespace

TEST_CASE("no dependency of any algorithm can be left out") {
  for (const char* name : {"direct", "twostep", "doubling", "halving", "ring", "double_tree"})
    for (bool in_place : {false, true})
      for (bool scale : {false, true})
        for (int n : {3, 4}) {
          const Collective c{tbcclOpAllReduce, in_place, scale, 0};
          const Group good = make(name, c, n);
          for (size_t rank = 0; rank < good.size(); rank++)
            for (size_t phase = 0; phase < good[rank].phases.size(); phase++)
              for (size_t dep = 0; dep < good[rank].phases[phase].deps.size(); dep++) {
                // A fold reads its own contribution when the receives of its slots are done; those
                // never wait for the scale, so every dependency counts. The exceptions are implied
                // by others of the same step.
                Group bad = good;
                auto& deps = bad[rank].phases[phase].deps;
                const Dep left_out = deps[dep];
                deps.erase(deps.begin() + static_cast<std::ptrdiff_t>(dep));
                const bool found = !schedule::verify(bad, c).ok();
                const Phase& on = good[rank].phases[static_cast<size_t>(left_out.phase)];
                const bool implied = on.kind == Kind::kScale && !deps.empty();
                INFO(name << " n " << n << " in place " << in_place << " scale " << scale
                          << " rank " << rank << " phase " << phase << " on " << left_out.phase);
                REQUIRE((found || implied));
              }
        }
}

TEST_CASE("messages that do not meet are found") {
  for (const char* name : {"direct", "twostep", "doubling", "halving", "ring", "double_tree"})
    for (bool in_place : {false, true}) {
      const Collective c{tbcclOpAllReduce, in_place, false, 0};
      const Group good = make(name, c, 5);
      every_phase(good, c, "another tag", [](Phase& p) {
        p.tag.base += 100;
        return is_message(p);
      });
      every_phase(good, c, "another peer", [](Phase& p) {
        p.peer = {0, p.peer.at(0) == 0 ? 2 : 0, 0, 0};
        return is_message(p);
      });
      every_phase(good, c, "one iteration less", [](Phase& p) {
        p.repeat--;
        return is_message(p);
      });
    }
}

TEST_CASE("wrong data is found") {
  for (const char* name : {"direct", "twostep", "doubling", "halving", "ring", "double_tree"})
    for (bool in_place : {false, true}) {
      const Collective c{tbcclOpAllReduce, in_place, false, 0};
      const Group good = make(name, c, 4);
      every_phase(good, c, "no finish", [](Phase& p) {
        const bool finishes = p.finish;
        p.finish = false;
        return finishes;
      });
      every_phase(good, c, "finish too early", [](Phase& p) {
        const bool does_not = p.kind == Kind::kRecvReduce && !p.finish;
        p.finish = true;
        return does_not;
      });
      every_phase(good, c, "another piece", [&](Phase& p) {
        const int next = (p.piece.at(0) + 1) % good[1].pieces;
        const bool changes = p.repeat == 1 && p.pieces == 1 && next != p.piece.at(0);
        p.piece = {next, 0, 0, 0};
        return changes;
      });
      every_phase(good, c, "received from the wrong buffer", [](Phase& p) {
        if (p.kind != Kind::kRecvReduce && p.kind != Kind::kSend) return false;
        p.src.buffer = p.src.buffer == schedule::Buffer::kScratch ? schedule::Buffer::kOutput
                                                                  : schedule::Buffer::kScratch;
        return true;
      });
      every_phase(good, c, "twice the own contribution", [](Phase& p) {
        if (p.kind != Kind::kFold) return false;
        p.own = 0;
        return true;
      });
    }
}

TEST_CASE("the order of operands counts") {
  const Collective c{tbcclOpAllReduce, false, false, 0};
  const Group good = make("doubling", c, 4);
  every_phase(good, c, "operands exchanged", [](Phase& p) {
    p.received_first = !p.received_first;
    return p.kind == Kind::kRecvReduce;
  });
  // Without the claim of rank order it is still not the same expression on every rank.
  Group bad = good;
  for (Schedule& s : bad) s.rank_order = false;
  bad[1].phases[1].received_first = !bad[1].phases[1].received_first;
  REQUIRE_FALSE(schedule::verify(bad, c).ok());
}

TEST_CASE("a ring that claims rank order is found out") {
  const Collective c{tbcclOpAllReduce, false, false, 0};
  Group bad = make("ring", c, 3);
  for (Schedule& s : bad) s.rank_order = true;
  REQUIRE_FALSE(schedule::verify(bad, c).ok());
}

TEST_CASE("the send buffer is not to be written") {
  const Collective c{tbcclOpAllReduce, false, false, 0};
  for (const char* name : {"direct", "twostep", "doubling", "halving", "ring", "double_tree"})
    every_phase(make(name, c, 4), c, "writes the input", [](Phase& p) {
      p.dst.buffer = schedule::Buffer::kInput;
      return p.kind != Kind::kSend;
    });
}

TEST_CASE("an exchange that waits for its own release gets stuck") {
  // Two ranks send their output to each other and receive into it, each waiting for the release
  // of its send: in the worst case neither comes.
  const Collective c{tbcclOpAllReduce, true, false, 0};
  Group group(2);
  for (int rank = 0; rank < 2; rank++) {
    Schedule& s = group[static_cast<size_t>(rank)];
    s.rank = rank;
    s.size = 2;
    Phase send, recv;
    send.src.buffer = schedule::Buffer::kOutput;
    send.peer = {1 - rank, 0, 0, 0};
    recv = send;
    recv.kind = Kind::kRecvReduce;
    recv.dst.buffer = schedule::Buffer::kOutput;
    recv.received_first = rank == 1;
    recv.finish = true;
    recv.deps = {{0, schedule::DepKind::kReleased, schedule::kAllIterations}};
    s.phases = {send, recv};
  }
  const Status s = schedule::verify(group, c);
  REQUIRE_FALSE(s.ok());
  REQUIRE(s.text().find("stuck") != std::string::npos);
  for (Schedule& each : group) each.phases[1].deps.clear();
  REQUIRE_FALSE(schedule::verify(group, c).ok());
}

TEST_CASE("rings of scratch need all their receives open at once") {
  // 18 ranks: 17 receives, of which 16 may be open.
  const Collective c{tbcclOpAllReduce, false, false, 0};
  for (const char* name : {"direct", "twostep"}) {
    Group bad = make(name, c, 18);
    for (Schedule& s : bad) {
      REQUIRE(s.phases[1].consumer == -1);
      s.phases[1].consumer = 2;
    }
    REQUIRE_FALSE(schedule::verify(bad, c).ok());
    REQUIRE(make(name, c, 17)[0].phases[1].consumer == 2);
  }
}

TEST_CASE("a broadcast from the wrong rank is found") {
  for (const char* name : {"tree", "chain", "scatter_gather", "double_tree"}) {
    const Collective c{tbcclOpBroadcast, false, false, 1};
    const Group good = make(name, c, 6);
    REQUIRE(schedule::verify(good, c).ok());
    REQUIRE_FALSE(schedule::verify(good, {tbcclOpBroadcast, false, false, 2}).ok());
    for (size_t rank = 0; rank < good.size(); rank++)
      for (size_t phase = 0; phase < good[rank].phases.size(); phase++) {
        Group bad = good;
        if (bad[rank].phases[phase].deps.empty()) continue;
        bad[rank].phases[phase].deps.clear();
        INFO(name << " rank " << rank << " phase " << phase);
        REQUIRE_FALSE(schedule::verify(bad, c).ok());
      }
  }
}
