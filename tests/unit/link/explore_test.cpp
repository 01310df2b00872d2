// What is explored: each scenario holds for every course of events within the budget. No loss,
// no duplication, no deadlock, no touch of memory after a withdrawal.
#include "explore.h"

#include <cstdio>

#include "unit/catch.h"

using namespace tbccl::link;
using namespace tbccl::link::testing;

namespace {

enum class Kind { kPlaced, kSlotted, kLossy, kLossyUnordered };

Scenario scenario_of(Kind kind) {
  Scenario s;
  s.memory.manual = true;
  s.memory.descriptors = false;
  s.memory.slotted = kind != Kind::kPlaced;
  s.memory.reliable = kind == Kind::kPlaced || kind == Kind::kSlotted;
  s.memory.ordered = kind != Kind::kLossyUnordered;
  s.memory.best_payload = 256;
  s.memory.max_payload = 256;
  s.memory.queue_frames = 3;
  s.options.eager_bytes = 400;
  return s;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kPlaced:
      return "placed";
    case Kind::kSlotted:
      return "slotted";
    case Kind::kLossy:
      return "lossy";
    case Kind::kLossyUnordered:
      return "lossy, unordered";
  }
  return "";
}

bool always() { return true; }

void send(World& world, int side, Key key, uint64_t total, uint64_t available) {
  Side& s = *world.pair->side[side];
  world.steps[side].push_back({side, always, [&s, side, key, total, available] {
                                 s.send(1 - side, key, total, available, 7,
                                        key.cls == Class::kPointToPoint);
                               }});
}

// Takes place once the side's earlier receives are complete, if `after_earlier`.
void receive(World& world, int side, Key key, uint64_t total, uint64_t granted,
             bool after_earlier = false) {
  Side& s = *world.pair->side[side];
  const auto ready = [&s, after_earlier] {
    if (!after_earlier) return true;
    for (auto& [index, in] : s.arriving) {
      if (in.done == 0) return false;
    }
    return true;
  };
  world.steps[side].push_back({side, ready, [&s, side, key, total, granted] {
                                 s.receive(1 - side, key, total, granted, 7, 4);
                               }});
}

void judge(World& world) {
  Pair& pair = *world.pair;
  world.complete = [&pair] {
    for (auto& side : pair.side) {
      for (auto& [index, in] : side->arriving) {
        if (in.done == 0 && !in.withdrawn) return false;
      }
      for (auto& [index, out] : side->outgoing) {
        if (out.released == 0 && out.send != nullptr) return false;
      }
    }
    return true;
  };
  world.verdict = [&pair]() -> std::string {
    for (auto& side : pair.side) {
      for (auto& [index, in] : side->arriving) {
        for (uint8_t times : in.seen) {
          if (times > 1) return "a byte was reported twice";
        }
        if (in.withdrawn) {
          for (std::byte b : in.data) {
            if (b != std::byte{0x5a}) return "withdrawn memory was written";
          }
        } else if (!intact(in, 1)) {
          return "a message arrived damaged";
        }
      }
    }
    return "";
  };
}

void run(const char* what, Kind kind, uint32_t share, const std::function<void(World&)>& prepare) {
  Scenario s = scenario_of(kind);
  s.prepare = [&prepare](World& world) {
    prepare(world);
    judge(world);
  };
  const int budget = explore_budget();
  const Explored result = budget > 0 ? explore(s, budget, 1) : explore(s, 2, share);
  std::printf("explored %-34s %-17s %8llu runs %10llu states\n", what, name_of(kind),
              static_cast<unsigned long long>(result.runs),
              static_cast<unsigned long long>(result.states));
  std::fflush(stdout);
  CHECK(result.problem == "");
}

}  // namespace

TEST_CASE("explore: a granted message of three segments") {
  const Kind kind = GENERATE(Kind::kPlaced, Kind::kSlotted, Kind::kLossy, Kind::kLossyUnordered);
  run("granted message", kind, 4, [](World& world) {
    send(world, 0, key_of(1), 600, 600);
    receive(world, 1, key_of(1), 600, 600);
  });
}

TEST_CASE("explore: both ends stream") {
  const Kind kind = GENERATE(Kind::kPlaced, Kind::kLossyUnordered);
  run("streaming", kind, 4, [](World& world) {
    send(world, 1, key_of(1), 520, 100);
    receive(world, 0, key_of(1), 520, 60);
    Side* a = &world.pair->a();
    Side* b = &world.pair->b();
    world.steps[1].push_back({1, always, [b] {
                                auto& out = b->outgoing.begin()->second;
                                if (out.send != nullptr) b->links().extend(out.send, 520);
                              }});
    world.steps[0].push_back({0, always, [a] {
                                auto& in = a->arriving.begin()->second;
                                if (in.recv != nullptr) a->extend(in, 400);
                              }});
    world.steps[0].push_back({0, always, [a] {
                                auto& in = a->arriving.begin()->second;
                                if (in.recv != nullptr) a->extend(in, 520);
                              }});
  });
}

TEST_CASE("explore: two communicators in opposite orders") {
  const Kind kind = GENERATE(Kind::kPlaced, Kind::kSlotted, Kind::kLossy);
  const uint64_t total = GENERATE(200, 400);
  run(total == 200 ? "two communicators, eager" : "two communicators, granted", kind, 60,
      [total](World& world) {
        // Each side completes its first receive before it posts its second.
        for (int side = 0; side < 2; ++side) {
          const auto first = static_cast<uint32_t>(1 + side),
                     second = static_cast<uint32_t>(2 - side);
          send(world, side, key_of(1, 1, first), total, total);
          send(world, side, key_of(1, 1, second), total, total);
          receive(world, side, key_of(1, 1, first), total, total);
          receive(world, side, key_of(1, 1, second), total, total, true);
        }
      });
}

TEST_CASE("explore: small messages without credit, received in another order") {
  const Kind kind = GENERATE(Kind::kPlaced, Kind::kLossy);
  const Class cls = GENERATE(Class::kCollective, Class::kPointToPoint);
  run("without credit", kind, 60, [cls](World& world) {
    for (uint64_t i = 0; i < 4; ++i) send(world, 0, key_of(1, i, 1, cls), 100, 100);
    for (uint64_t i = 4; i-- > 0;) receive(world, 1, key_of(1, i, 1, cls), 100, 100, true);
  });
}

TEST_CASE("explore: a message is withdrawn at either end") {
  const Kind kind = GENERATE(Kind::kPlaced, Kind::kSlotted, Kind::kLossyUnordered);
  const bool at_sender = GENERATE(false, true);
  run(at_sender ? "withdrawn send" : "withdrawn receive", kind, 4, [at_sender](World& world) {
    send(world, 0, key_of(1, 1), 600, 600);
    receive(world, 1, key_of(1, 1), 600, 600);
    Side* s = world.pair->side[at_sender ? 0 : 1].get();
    // In the default course this comes when all is done; every earlier time is a choice.
    const auto withdraw = [&world, s, at_sender] {
      if (at_sender) {
        auto& out = s->outgoing.begin()->second;
        if (out.send == nullptr) return;
        s->links().withdraw(out.send);
        out.send = nullptr;
        std::vector<std::byte>().swap(out.data);
        auto& in = world.pair->b().arriving;
        if (in.empty() || in.begin()->second.recv == nullptr) return;
      } else {
        auto& in = s->arriving.begin()->second;
        if (in.recv == nullptr) return;
        s->links().withdraw(in.recv);
        in.recv = nullptr;
        in.withdrawn = true;
        std::fill(in.data.begin(), in.data.end(), std::byte{0x5a});
      }
    };
    world.steps[at_sender ? 0 : 1].push_back({0, always, withdraw});
    if (!at_sender) return;
    // What the sender took back the receiver gives up, as it does when the communicator breaks.
    Side* b = &world.pair->b();
    Side* a = &world.pair->a();
    const auto taken_back = [a, b] {
      return !a->outgoing.empty() && a->outgoing.begin()->second.send == nullptr &&
             !b->arriving.empty() &&
             (a->outgoing.begin()->second.data.empty() ||
              b->arriving.begin()->second.recv == nullptr);
    };
    world.steps[1].push_back({1, taken_back, [b] {
                                auto& in = b->arriving.begin()->second;
                                if (in.recv == nullptr) return;
                                b->links().withdraw(in.recv);
                                in.recv = nullptr;
                                in.withdrawn = true;
                                std::fill(in.data.begin(), in.data.end(), std::byte{0x5a});
                              }});
  });
}
