// Every algorithm over both wires, with exact verification.
#include <cstring>
#include <vector>

#include "algorithms/algorithms.h"
#include "group.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

// Small whole numbers, multiples of the number of ranks, so that every partial sum and the average
// are exact in every type and any order gives the same bits.
int value(int rank, uint64_t i, int size) {
  return static_cast<int>((i * 7 + static_cast<uint64_t>(rank) * 5) % 5) * size;
}

void store(std::byte* at, tbcclDataType_t type, int v) {
  if (type == tbcclFloat32) {
    const float f = static_cast<float>(v);
    std::memcpy(at, &f, 4);
  } else if (type == tbcclBfloat16) {
    const uint16_t bits = reduce::float_to_bfloat16(static_cast<float>(v));
    std::memcpy(at, &bits, 2);
  } else {
    const auto byte = static_cast<int8_t>(v);
    std::memcpy(at, &byte, 1);
  }
}

struct Case {
  tbcclDataType_t type;
  tbcclRedOp_t op;
};

// Canaries around the output; input compared afterwards.
struct Buffers {
  static constexpr size_t kCanary = 64;
  Buffers(int rank, int size, uint64_t count, const Case& c, bool in_place_)
      : in_place(in_place_), bytes(count * reduce::size_of(c.type)) {
    input.resize(bytes);
    output.assign(bytes + 2 * kCanary, std::byte{0xa5});
    for (uint64_t i = 0; i < count; ++i) {
      store(input.data() + i * reduce::size_of(c.type), c.type, value(rank, i, size));
    }
    before = input;
    if (in_place && bytes > 0) std::memcpy(out(), input.data(), bytes);
  }
  std::byte* out() { return output.data() + kCanary; }
  const void* in() { return in_place ? out() : input.data(); }
  bool right(int size, uint64_t count, const Case& c) {
    if (input != before) return false;
    std::vector<std::byte> expected(bytes + 2 * kCanary, std::byte{0xa5});
    for (uint64_t i = 0; i < count; ++i) {
      int sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += value(rank, i, size);
      store(expected.data() + kCanary + i * reduce::size_of(c.type), c.type,
            c.op == tbcclAvg ? sum / size : sum);
    }
    return output == expected;
  }
  bool in_place;
  size_t bytes;
  std::vector<std::byte> input, before, output;
};

void check(Group& group, const std::string& algorithm, uint64_t count, const Case& c,
           bool in_place) {
  const int size = group.size();
  std::vector<Buffers> buffers;
  for (int rank = 0; rank < size; ++rank) buffers.emplace_back(rank, size, count, c, in_place);
  std::vector<Status> results(size);
  group.each([&](int rank) {
    schedule::Collective collective;
    collective.in_place = in_place;
    const auto plan = make_plan(algorithm, collective, rank, size);
    results[rank] = group.lane(rank).run(
        group.channel(rank),
        all_reduce(plan, buffers[rank].in(), buffers[rank].out(), count, c.type, c.op));
  });
  for (int rank = 0; rank < size; ++rank) {
    INFO(algorithm << ", " << size << " ranks, count " << count << ", type " << c.type
                   << ", in place " << in_place << ", rank " << rank << ": "
                   << results[rank].text());
    REQUIRE(results[rank].ok());
    REQUIRE(buffers[rank].right(size, count, c));
  }
}

void sweep(Group& group, const std::vector<uint64_t>& counts) {
  for (const algorithms::Algorithm& algorithm : algorithms::table()) {
    if (!algorithm.serves(tbcclOpAllReduce)) continue;
    for (const uint64_t count : counts) {
      for (const Case& c : {Case{tbcclFloat32, tbcclSum}, Case{tbcclInt8, tbcclSum},
                            Case{tbcclBfloat16, tbcclAvg}}) {
        for (const bool in_place : {false, true}) {
          check(group, algorithm.name, count, c, in_place);
        }
      }
    }
  }
}

TEST_CASE("every all-reduce over the memory transport") {
  GroupOptions options;
  options.size = GENERATE(1, 2, 3, 4, 7);
  options.memory.slotted = GENERATE(false, true);
  options.memory.chunk = options.memory.slotted ? 0 : 1000;
  Group group(options);
  sweep(group, {0, 1, 5, 257, 4096, 40'000});
}

TEST_CASE("every all-reduce over TCP") {
  GroupOptions options;
  options.size = GENERATE(2, 3, 4);
  options.wire = Wire::kTcp;
  Group group(options);
  sweep(group, {0, 1, 1000, 70'001});
}

TEST_CASE("large all-reduces wrap around ring slots and stripe over trunks") {
  GroupOptions options;
  options.size = 3;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  options.trunks = 2;
  Group group(options);
  for (const algorithms::Algorithm& algorithm : algorithms::table()) {
    if (!algorithm.serves(tbcclOpAllReduce)) continue;
    for (const bool in_place : {false, true}) {
      check(group, algorithm.name, 700'001, {tbcclFloat32, tbcclSum}, in_place);
    }
  }
}

TEST_CASE("broadcasts from every root") {
  GroupOptions options;
  options.size = GENERATE(2, 3, 5);
  Group group(options);
  const int size = group.size();
  for (const std::string algorithm : {"tree", "chain", "scatter_gather", "double_tree"}) {
    for (int root = 0; root < size; ++root) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{300'000}}) {
        std::vector<std::vector<int>> data(size, std::vector<int>(count + 1, -1));
        for (uint64_t i = 0; i < count; ++i) data[root][i] = static_cast<int>(i * 3 + 1);
        const std::vector<int> expected = data[root];
        std::vector<Status> results(size);
        group.each([&](int rank) {
          schedule::Collective collective;
          collective.operation = tbcclOpBroadcast;
          collective.root = root;
          collective.in_place = true;
          const auto plan = make_plan(algorithm, collective, rank, size);
          results[rank] = group.lane(rank).run(
              group.channel(rank),
              all_reduce(plan, data[rank].data(), data[rank].data(), count, tbcclInt32));
        });
        for (int rank = 0; rank < size; ++rank) {
          INFO(algorithm << " root " << root << " count " << count << ": " << results[rank].text());
          REQUIRE(results[rank].ok());
          REQUIRE(data[rank] == expected);
        }
      }
    }
  }
}

TEST_CASE("ranks may differ in place") {
  Group group({.size = 4});
  for (const std::string algorithm : {"direct", "twostep", "ring", "doubling", "halving"}) {
    std::vector<Buffers> buffers;
    const Case c{tbcclFloat32, tbcclSum};
    for (int rank = 0; rank < 4; ++rank) buffers.emplace_back(rank, 4, 50'000, c, rank % 2 == 0);
    group.each([&](int rank) {
      schedule::Collective collective;
      collective.in_place = rank % 2 == 0;
      const Status result = group.lane(rank).run(
          group.channel(rank), all_reduce(make_plan(algorithm, collective, rank, 4),
                                          buffers[rank].in(), buffers[rank].out(), 50'000));
      if (!result.ok()) buffers[rank].before.clear();  // makes right() false
    });
    for (int rank = 0; rank < 4; ++rank) {
      INFO(algorithm << " rank " << rank);
      REQUIRE(buffers[rank].right(4, 50'000, c));
    }
  }
}

}  // namespace
}  // namespace tbccl::testing
