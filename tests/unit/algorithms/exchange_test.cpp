// Exchanges, halving and scans: their costs against the simulator, their steps and bytes, and that
// the verifier sees what is damaged in them.
#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <utility>

#include "schedule/simulate.h"
#include "unit/algorithms/group.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using algorithms::Algorithm;
using schedule::Collective;
using schedule::Kind;
using schedule::Phase;
using schedule::Simulation;

namespace {

struct Pair {
  const char* name;
  tbcclOperation_t operation;
};

constexpr Pair kPairs[] = {{"pairwise", tbcclOpAllToAll}, {"bruck", tbcclOpAllToAll},
                           {"bruck", tbcclOpAllGather},   {"halving", tbcclOpReduceScatter},
                           {"doubling", tbcclOpScan},     {"doubling", tbcclOpExScan},
                           {"chain", tbcclOpScan},        {"chain", tbcclOpExScan}};

const Algorithm& algorithm(const Pair& pair) { return *algorithms::find(pair.name); }

schedule::Basis cabled(int n, double rate, bool mesh) {
  schedule::Basis basis = ranks(n);
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++)
      if (mesh || b == a + 1 || (a == 0 && b == n - 1)) basis.cables.push_back({a, b, rate});
  return basis;
}

schedule::Basis hosts(int count, int each, int cores) {
  schedule::Basis basis = ranks(count * each);
  basis.cores = cores;
  for (int r = 0; r < basis.size; r++) basis.host.push_back(r / each);
  return basis;
}

Simulation play(const Pair& pair, const schedule::Basis& basis, uint64_t count) {
  const Collective c{pair.operation, false, false, 0};
  Simulation result;
  const Status s =
      schedule::simulate(make_all(algorithm(pair), c, basis), c, basis, count, 4, &result);
  INFO(pair.name << ", operation " << pair.operation << ": " << s.text());
  REQUIRE(s.ok());
  return result;
}

algorithms::Cost predict(const Pair& pair, const schedule::Basis& basis, uint64_t count) {
  const auto blocks = static_cast<uint64_t>(schedule::vector_blocks(pair.operation, basis.size));
  return algorithm(pair).cost({pair.operation, false, false, 0}, count * 4 * blocks, basis);
}

int log2_up(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

}  // namespace

TEST_CASE("costs of exchanges, halving and scans agree with the simulator within a factor of two") {
  const std::vector<schedule::Basis> bases = {hosts(1, 2, 2),
                                              hosts(1, 4, 2),
                                              hosts(1, 7, 8),
                                              hosts(2, 4, 4),
                                              cabled(4, 0.01, false),
                                              cabled(4, 5.0, false),
                                              cabled(8, 1.0, false),
                                              cabled(4, 0.01, true),
                                              cabled(4, 5.0, true),
                                              cabled(2, 5.0, true),
                                              ranks(4),
                                              ranks(6),
                                              ranks(13),
                                              cabled(3, 1.0, false),
                                              cabled(16, 5.0, true)};
  for (size_t b = 0; b < bases.size(); b++)
    for (const Pair& pair : kPairs)
      for (uint64_t count :
           {uint64_t{2}, uint64_t{1} << 10, uint64_t{1} << 16, uint64_t{1} << 20}) {
        const double simulated = play(pair, bases[b], count).ns;
        const double predicted = predict(pair, bases[b], count).ns;
        INFO("basis " << b << ", " << pair.name << ", operation " << pair.operation << ", " << count
                      << " elements: predicted " << predicted / 1000 << " us, simulated "
                      << simulated / 1000 << " us");
        CHECK(predicted < simulated * 2);
        CHECK(simulated < predicted * 2);
      }
}

TEST_CASE("exchanges, halving and scans take the steps that they say") {
  for (int n = 2; n <= 33; n++)
    for (const Pair& pair : kPairs) {
      INFO(pair.name << ", operation " << pair.operation << ", " << n << " ranks");
      const int steps = play(pair, ranks(n), 1000).steps;
      REQUIRE(steps == predict(pair, ranks(n), 1000).steps);
      if (pair.name == std::string("chain"))
        REQUIRE(steps == n - 1);
      else if (pair.name != std::string("pairwise"))
        REQUIRE(steps <= log2_up(n));
    }
}

TEST_CASE("no block is sent twice but by the all-to-all in few steps") {
  for (int n = 2; n <= 33; n++)
    for (const Pair& pair : kPairs) {
      if (!schedule::vector_blocks(pair.operation, n) || pair.operation == tbcclOpScan ||
          pair.operation == tbcclOpExScan)
        continue;
      int most = 0;  // blocks that a rank sends
      for (const auto& s : make_all(algorithm(pair), {pair.operation, false, false, 0}, ranks(n))) {
        int blocks = 0;
        for (const Phase& p : s.phases)
          if (p.kind == Kind::kSend) blocks += p.repeat * p.pieces;
        most = std::max(most, blocks);
      }
      INFO(pair.name << ", operation " << pair.operation << ", " << n << " ranks");
      if (pair.operation == tbcclOpAllToAll && pair.name == std::string("bruck"))
        REQUIRE(most <= n * log2_up(n) / 2);
      else
        REQUIRE(most == n - 1);
    }
}

TEST_CASE("halving uses every cable of a ring of four to the lower bound, in two steps") {
  const uint64_t count = uint64_t{1} << 20;  // of a block
  const double rate = 0.125, whole = static_cast<double>(count) * 16 / rate;
  const Pair halving{"halving", tbcclOpReduceScatter};
  schedule::Basis crossed = ranks(4);  // 0 2 1 3
  crossed.cables = {{0, 2, rate}, {2, 1, rate}, {1, 3, rate}, {3, 0, rate}};
  for (const auto& basis : {cabled(4, rate, false), crossed}) {
    const Simulation simulated = play(halving, basis, count);
    REQUIRE(simulated.steps == 2);
    REQUIRE(simulated.ns / whole < 0.375 * 1.05);
    REQUIRE(simulated.ns / whole >= 0.375);
    for (const auto& s :
         make_all(algorithm(halving), {tbcclOpReduceScatter, false, false, 0}, basis))
      for (const Phase& p : s.phases)
        if (p.kind == Kind::kSend) REQUIRE(basis.joined(s.rank, p.peer.at(0)));
  }
}

TEST_CASE("pairwise all-to-all needs few blocks of scratch, and keeps few messages open") {
  for (int n : {2, 3, 8, 33, 200}) {
    const schedule::Basis basis = ranks(n);
    const Collective in_place{tbcclOpAllToAllV, true, false, 0};
    REQUIRE(algorithms::find("pairwise")->make(in_place, 1, n, basis).scratch_slots <= 5);
  }
  // Of 100 ranks only few sends are open at the beginning: those of two steps, and one opposite.
  const auto s =
      algorithms::find("pairwise")->make({tbcclOpAllToAll, false, false, 0}, 0, 100, ranks(100));
  int open = 0;
  for (const Phase& p : s.phases) {
    int32_t window = p.repeat;
    for (const schedule::Dep& dep : p.deps)
      if (&s.phases[static_cast<size_t>(dep.phase)] == &p) window = -dep.shift;
    if (p.kind == Kind::kSend) open += window;
  }
  REQUIRE(open == 5);
}

TEST_CASE("larger groups exchange, halve and scan") {
  for (int n : {64, 100})
    for (const Pair& pair : kPairs)
      for (bool in_place : {false, true}) {
        const Collective c{pair.operation, in_place, false, 0};
        const Status s = schedule::verify(make_all(algorithm(pair), c, ranks(n)), c);
        INFO(pair.name << ", operation " << pair.operation << ", " << n << " ranks: " << s.text());
        REQUIRE(s.ok());
      }
}

TEST_CASE("a plan for thousands of ranks is short") {
  for (const Pair& pair : kPairs) {
    INFO(pair.name << ", operation " << pair.operation);
    const auto s = algorithm(pair).make({pair.operation, true, false, 0}, 1234, 4096, ranks(4096));
    REQUIRE(s.phases.size() < 400);
  }
}

TEST_CASE("a simulation of too many copies is refused") {
  const Collective c{tbcclOpAllToAll, false, false, 0};
  const auto all = make_all(*algorithms::find("bruck"), c, ranks(16));
  schedule::SimulateOptions options;
  options.most_local = 100;
  Simulation result;
  const Status s = schedule::simulate(all, c, ranks(16), 1, 4, &result, options);
  REQUIRE(s.code() == tbcclInvalidArgument);
  REQUIRE(s.text().find("local steps") != std::string::npos);
}

TEST_CASE("damage to exchanges, halving and scans is found") {
  const auto is_message = [](const Phase& p) {
    return p.kind == Kind::kSend || p.kind == Kind::kRecv || p.kind == Kind::kRecvReduce;
  };
  // Each says whether it changed anything.
  const std::pair<const char*, std::function<bool(Phase&)>> damages[] = {
      {"another tag", [&](Phase& p) { return p.tag.base += 100, is_message(p); }},
      {"another peer",
       [&](Phase& p) {
         p.peer = {0, p.peer.at(0) == 0 ? 2 : 0, 0, 0};
         return is_message(p);
       }},
      {"one iteration less", [&](Phase& p) { return p.repeat--, is_message(p); }},
      {"no finish", [](Phase& p) { return std::exchange(p.finish, false); }},
      {"finish too early",
       [](Phase& p) {
         return (p.kind == Kind::kRecvReduce || p.kind == Kind::kFold) &&
                !std::exchange(p.finish, true);
       }},
      {"writes the input", [](Phase& p) {
         p.dst.buffer = schedule::Buffer::kInput;
         return p.kind != Kind::kSend;
       }}};
  for (const Pair& pair : kPairs)
    for (bool in_place : {false, true}) {
      const Collective c{pair.operation, in_place, false, 0};
      const auto good = make_all(algorithm(pair), c, ranks(6));
      for (size_t phase = 0; phase < good[1].phases.size(); phase++)
        for (const auto& [what, damage] : damages) {
          auto bad = good;
          if (!damage(bad[1].phases[phase])) continue;
          INFO(pair.name << ", operation " << pair.operation << ", in place " << in_place
                         << ", phase " << phase << ": " << what);
          REQUIRE_FALSE(schedule::verify(bad, c).ok());
        }
    }
}

TEST_CASE("scans that exchange their operands are found out") {
  for (const Pair& pair : kPairs) {
    if (pair.operation != tbcclOpScan) continue;
    const Collective c{pair.operation, false, false, 0};
    const auto good = make_all(algorithm(pair), c, ranks(6));
    for (size_t rank = 0; rank < good.size(); rank++)
      for (size_t phase = 0; phase < good[rank].phases.size(); phase++) {
        auto bad = good;
        Phase& p = bad[rank].phases[phase];
        if (p.kind != Kind::kRecvReduce) continue;
        p.received_first = false;
        REQUIRE_FALSE(schedule::verify(bad, c).ok());
      }
  }
}
