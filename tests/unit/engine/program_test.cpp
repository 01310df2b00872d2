// In which order the messages of one schedule go where they compete for a cable.
#include "engine/program.h"

#include <vector>

#include "group.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

std::vector<uint32_t> depths_of_sends(const std::string& algorithm, int rank, int size) {
  const auto plan = make_plan(algorithm, {tbcclOpAllReduce, false, false, 0}, rank, size);
  engine::Program program;
  program.prepare(plan, 1024, nullptr, 4);
  std::vector<uint32_t> depths;
  for (int p = 0; p < program.phases(); ++p) {
    if (program.phase(p).kind == schedule::Kind::kSend) depths.push_back(program.depth(p));
  }
  return depths;
}

}  // namespace

// Two halves of the vector use the same cables in opposite order: what one of them sends last
// must not hold up what the other has still to do before.
TEST_CASE("a phase is as deep as the steps that come before it, whatever half it belongs to") {
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(depths_of_sends("halving", rank, 4) == std::vector<uint32_t>{0, 1, 2, 3, 0, 1, 2, 3});
  }
}

// In each direction: the first piece, the partial sums of steps 1 to 3, the whole piece of step 4,
// and the results of steps 5 to 7.
TEST_CASE("the second round of a ring is as deep as the first is long") {
  CHECK(depths_of_sends("ring", 1, 5) == std::vector<uint32_t>{0, 1, 4, 5, 0, 1, 4, 5});
}

}  // namespace tbccl::testing
