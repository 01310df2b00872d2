// Schedules that follow cables, carried out: here the basis says how ranks are joined.
#include <algorithm>
#include <memory>
#include <vector>

#include "algorithms/algorithms.h"
#include "group.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

// Four ranks on a ring in this order.
schedule::Basis ring_of(const std::vector<int>& order) {
  schedule::Basis basis;
  basis.size = 4;
  for (size_t p = 0; p < 4; ++p) basis.cables.push_back({order[p], order[(p + 1) % 4], 1.0});
  return basis;
}

// Small whole numbers: any order of sums gives the same bits.
float value(int rank, uint64_t i) { return static_cast<float>((i + 3 * rank) % 7); }

TEST_CASE("reduce-scatter by halving on a ring of four") {
  GroupOptions options;
  options.size = 4;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  const std::vector<int> order =
      GENERATE(std::vector<int>{0, 1, 2, 3}, std::vector<int>{2, 0, 3, 1});
  const schedule::Basis basis = ring_of(order);
  Group group(options);
  for (const uint64_t count : {0, 1, 2, 63, 4096, 200'003})
    for (const int mix : {0, 1, 2}) {  // in place: none, all, some
      std::vector<std::vector<float>> inputs(4), outputs(4);
      std::vector<Status> results(4);
      for (int rank = 0; rank < 4; ++rank) {
        outputs[rank].assign(count, -1);
        for (uint64_t i = 0; i < 4 * count; ++i) inputs[rank].push_back(value(rank, i));
      }
      const auto before = inputs;
      group.each([&](int rank) {
        const bool in_place = mix == 1 || (mix == 2 && rank % 2 == 1);
        const schedule::Collective collective{tbcclOpReduceScatter, in_place, false, 0};
        auto plan = std::make_shared<engine::Plan>();
        plan->schedule = algorithms::find("halving")->make(collective, rank, 4, basis);
        float* const out = in_place ? inputs[rank].data() + static_cast<uint64_t>(rank) * count
                                    : outputs[rank].data();
        results[rank] = group.lane(rank).run(group.channel(rank),
                                             all_reduce(plan, inputs[rank].data(), out, count));
        if (!in_place) return;
        outputs[rank].assign(out, out + count);
        std::copy_n(before[rank].begin() + (out - inputs[rank].data()), count, out);
      });
      for (int rank = 0; rank < 4; ++rank) {
        INFO("rank " << rank << ", count " << count << ", mix " << mix << ": "
                     << results[rank].text());
        REQUIRE(results[rank].ok());
        std::vector<float> expected;
        for (uint64_t i = rank * count; i < (rank + 1) * count; ++i)
          expected.push_back(value(0, i) + value(1, i) + value(2, i) + value(3, i));
        REQUIRE(outputs[rank] == expected);
        REQUIRE(inputs[rank] == before[rank]);  // of all blocks that are not the result
      }
    }
}

}  // namespace
}  // namespace tbccl::testing
