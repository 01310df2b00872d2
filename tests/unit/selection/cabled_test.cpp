// What is chosen on many cablings: along cables, in few steps, near the bounds.
#include <map>

#include "schedule/bounds.h"
#include "schedule/simulate.h"
#include "selection/selection.h"
#include "unit/algorithms/cablings.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using schedule::Basis;

namespace {

// Those in which all ranks know all sizes.
constexpr tbcclOperation_t kKnown[] = {
    tbcclOpAllReduce, tbcclOpBarrier,    tbcclOpBroadcast,     tbcclOpReduce,
    tbcclOpAllGather, tbcclOpAllGatherV, tbcclOpReduceScatter, tbcclOpReduceScatterV,
    tbcclOpGather,    tbcclOpScatter,    tbcclOpAllToAll};

bool has_root(tbcclOperation_t o) {
  return o == tbcclOpBroadcast || o == tbcclOpReduce || o == tbcclOpGather || o == tbcclOpScatter;
}

selection::Question question(tbcclOperation_t operation, int root, uint64_t count) {
  selection::Question q;
  q.collective.operation = operation;
  q.collective.root = root;
  q.count = count;
  q.element = 4;
  return q;
}

std::string chosen(const selection::Question& q, const Basis& basis) {
  selection::Choice choice;
  const Status s = selection::choose(q, basis, &choice);
  INFO(s.text());
  REQUIRE(s.ok());
  return choice.algorithm;
}

double of_bound(const char* operation, tbcclOperation_t op, const Basis& basis) {
  const uint64_t bytes = uint64_t{64} << 20;
  const auto blocks = static_cast<uint64_t>(schedule::vector_blocks(op, basis.size));
  const selection::Question q = question(op, 0, bytes / 4 / blocks);
  schedule::Simulation played;
  const Status s =
      schedule::simulate(make_all(*algorithms::find(chosen(q, basis)), q.collective, basis),
                         q.collective, basis, q.count, 4, &played);
  INFO(s.text());
  REQUIRE(s.ok());
  return schedule::lower_bound(operation, 0, basis).ns(bytes) / played.ns;
}

}  // namespace

TEST_CASE("what is chosen sends along cables only") {
  for (const auto& [cabling, basis] : cablings())
    for (tbcclOperation_t operation : kKnown)
      for (uint64_t count : {uint64_t{1}, uint64_t{1} << 12, uint64_t{1} << 22})
        for (int root = 0; root < (has_root(operation) ? basis.size : 1); root++) {
          const selection::Question q = question(operation, root, count);
          const std::string name = chosen(q, basis);
          for (int rank = 0; rank < basis.size; rank++)
            for (const auto& p : selection::make(name, q.collective, rank, basis).phases)
              for (int i = 0; i < p.repeat && p.kind == schedule::Kind::kSend; i++) {
                INFO(name << ", operation " << operation << ", " << count << " elements on "
                          << cabling << ": rank " << rank << " to " << p.peer.at(i));
                REQUIRE((basis.cables.empty() ||
                         basis.medium(rank, p.peer.at(i)) != schedule::Medium::kNetwork));
              }
        }
}

TEST_CASE("a choice that was asked for by name may leave the cables") {
  Basis basis = cablings().at("ring:4");
  basis.algorithms = "direct";
  REQUIRE(chosen(question(tbcclOpAllReduce, 0, 2), basis) == "direct");
}

TEST_CASE("8 bytes take two steps on a ring of four, in whatever order it is cabled") {
  const selection::Question q = question(tbcclOpAllReduce, 0, 2);
  for (const char* cabling : {"ring:4", "ring of four, 0 2 1 3"}) {
    const Basis basis = cablings().at(cabling);
    selection::Choice choice;
    REQUIRE(selection::choose(q, basis, &choice).ok());
    INFO(cabling << ": " << selection::explain(q, basis));
    for (const selection::Candidate& c : choice.candidates)
      if (c.algorithm == choice.algorithm) REQUIRE(c.steps == 2);
    schedule::Simulation played;
    REQUIRE(schedule::simulate(make_all(*algorithms::find(choice.algorithm), q.collective, basis),
                               q.collective, basis, 2, 4, &played)
                .ok());
    REQUIRE(played.steps == 2);
  }
}

TEST_CASE("large vectors come near the lower bound of the cabling") {
  const std::map<const char*, tbcclOperation_t> operations = {
      {"allreduce", tbcclOpAllReduce},
      {"allgather", tbcclOpAllGather},
      {"reducescatter", tbcclOpReduceScatter},
      {"broadcast", tbcclOpBroadcast}};
  const std::map<const char*, double> least = {{"ring:4", 0.95},
                                               {"mesh:4", 0.95},
                                               {"mesh:4 without 0-1", 0.93},
                                               {"chain:4", 0.95},
                                               {"ring:4 with a second cable 0-1", 0.93}};
  for (const auto& [cabling, share] : least)
    for (const auto& [name, operation] : operations) {
      const double reached = of_bound(name, operation, cablings().at(cabling));
      INFO(name << " on " << cabling << ": " << reached);
      CHECK(reached >= share);
    }
}
