#include "schedule/schedule.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "unit/catch.h"

using namespace tbccl::schedule;

TEST_CASE("affine values wrap within their modulus, also downwards") {
  const Affine down{4, 1, -1, 5};
  const int32_t expected[] = {5, 4, 8, 7, 6, 5};
  for (int32_t i = 0; i < 6; i++) REQUIRE(down.at(i) == expected[i]);
  const Affine plain{10, 2, 3, 0};
  REQUIRE(plain.at(4) == 24);
}

TEST_CASE("pieces cover the vector, are even, and begin on lines where it is long") {
  for (int32_t pieces : {1, 2, 3, 7, 8, 66})
    for (uint32_t element : {1u, 2u, 4u, 8u, 16u})
      for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{5}, uint64_t{65}, uint64_t{1000},
                             uint64_t{1} << 20, (uint64_t{1} << 20) + 13, uint64_t{1} << 40}) {
        std::vector<uint64_t> o(static_cast<size_t>(pieces) + 1);
        piece_offsets(pieces, count, element, o);
        REQUIRE(o.front() == 0);
        REQUIRE(o.back() == count * element);
        uint64_t shortest = std::numeric_limits<uint64_t>::max(), longest = 0;
        const bool is_long = count * element >= 64 * 17 * static_cast<uint64_t>(pieces);
        bool whole = true, lines = true;
        for (size_t k = 0; k + 1 < o.size(); k++) {
          REQUIRE(o[k] <= o[k + 1]);
          shortest = std::min(shortest, o[k + 1] - o[k]);
          longest = std::max(longest, o[k + 1] - o[k]);
          whole = whole && o[k] % element == 0;
          lines = lines && o[k] % 64 == 0;
        }
        REQUIRE(whole);
        REQUIRE(longest - shortest <= (is_long ? 128 : 64));
        REQUIRE((!is_long || lines));
      }
}

TEST_CASE("a scratch slot holds the longest range, rings only their window") {
  Schedule s;
  s.pieces = 2;
  s.scratch_slots = 1;
  Phase recv;
  recv.kind = Kind::kRecv;
  recv.dst.buffer = Buffer::kScratch;
  recv.piece = {0, 1, 0, 0};
  s.phases = {recv};
  const std::vector<uint64_t> offsets = {0, 100, 1'000'100};
  REQUIRE(scratch_slot_bytes(s, offsets, 4096) == 1'000'000);
  s.phases[0].consumer = 1;
  REQUIRE(scratch_slot_bytes(s, offsets, 4096) == 4096);
  REQUIRE(scratch_slot_bytes(s, offsets, uint64_t{1} << 30) == 1'000'000);
  s.phases[0].piece = {0, 0, 1, 0};
  s.phases[0].repeat = 2;
  s.phases[0].consumer = -1;
  REQUIRE(scratch_slot_bytes(s, offsets, 4096) == 1'000'000);
  s.phases[0].dst.buffer = Buffer::kOutput;
  REQUIRE(scratch_slot_bytes(s, offsets, 4096) == 0);
}

TEST_CASE("text has one line for the schedule and one for each phase") {
  Schedule s;
  s.algorithm = "sample";
  s.rank = 1;
  s.size = 4;
  s.pieces = 8;
  Phase send;
  send.repeat = 3;
  send.peer = {0, 2, 1, 4};
  send.piece = {4, 1, -1, 4};
  send.tag = {6, 0, 1, 0};
  send.deps = {{0, DepKind::kDone, -1}};
  Phase fold;
  fold.kind = Kind::kFold;
  fold.sources = 4;
  fold.own = 1;
  fold.finish = true;
  fold.dst.buffer = Buffer::kOutput;
  fold.deps = {{0, DepKind::kReleased, kAllIterations}};
  s.phases = {send, fold};
  REQUIRE(to_text(s) ==
          "sample: rank 1 of 4, 8 pieces, no scratch, rank order\n"
          " 0  send         x3  to (2+i)%4  piece 4+(1-i)%4  tag 6+i  from input  after 0[i-1]\n"
          " 1  fold         piece 0  4 contributions in scratch[0], number 1 in input -> output  "
          "finish  after release of 0\n");
}
