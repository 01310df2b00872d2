// What a board does besides all-reduce, broadcast and barrier: every operation, from every root,
// for any length, in place or not, copied or referred to.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/shared_memory.h"
#include "engine/board.h"
#include "group.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

using engine::BoardUse;

constexpr uint64_t kMillisecond = 1'000'000;

// What a rank has to give: element i of its block b. Small whole numbers, so that sums are exact.
int32_t given(int rank, uint64_t block, uint64_t i) {
  return static_cast<int32_t>((i * 7 + block * 13 + static_cast<uint64_t>(rank) * 29) % 1009);
}
constexpr int32_t kUntouched = -77;

struct What {
  BoardUse use;
  tbcclOperation_t operation;
  bool rooted, input_blocks, output_blocks;  // n blocks instead of one
};
constexpr What kAll[] = {
    {BoardUse::kReduce, tbcclOpReduce, true, false, false},
    {BoardUse::kScan, tbcclOpScan, false, false, false},
    {BoardUse::kExclusiveScan, tbcclOpExScan, false, false, false},
    {BoardUse::kReduceScatter, tbcclOpReduceScatter, false, true, false},
    {BoardUse::kExchange, tbcclOpAllToAll, false, true, true},
    {BoardUse::kCollect, tbcclOpAllGather, false, false, true},
    {BoardUse::kGather, tbcclOpGather, true, false, true},
    {BoardUse::kScatter, tbcclOpScatter, true, true, false},
};

int32_t sum_of(int from, int to, uint64_t block, uint64_t i) {
  int32_t sum = 0;
  for (int rank = from; rank < to; ++rank) sum += given(rank, block, i);
  return sum;
}

// Element i of block b of what `rank` gets.
int32_t expected(const What& what, int rank, int size, int root, uint64_t b, uint64_t i) {
  const auto own = static_cast<uint64_t>(rank);
  switch (what.operation) {
    case tbcclOpReduce:
      return rank == root ? sum_of(0, size, 0, i) : kUntouched;
    case tbcclOpScan:
      return sum_of(0, rank + 1, 0, i);
    case tbcclOpExScan:
      return rank > 0 ? sum_of(0, rank, 0, i) : kUntouched;
    case tbcclOpReduceScatter:
      return sum_of(0, size, own, i);
    case tbcclOpAllToAll:
      return given(static_cast<int>(b), own, i);
    case tbcclOpAllGather:
      return given(static_cast<int>(b), 0, i);
    case tbcclOpGather:
      return rank == root ? given(static_cast<int>(b), 0, i) : kUntouched;
    default:
      return given(root, own, i);
  }
}

class Numbers {
 public:
  Numbers(uint64_t count, bool shared) : shared_(shared), ordinary_(shared ? 0 : count + 1) {
    void* memory = ordinary_.data();
    if (shared && !allocate_shared((count + 1) * sizeof(int32_t), &memory).ok()) std::abort();
    data_ = static_cast<int32_t*>(memory);
    std::fill(data_, data_ + count, kUntouched);
  }
  ~Numbers() {
    if (shared_) (void)free_shared(data_);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  int32_t* data() { return data_; }

 private:
  bool shared_;
  std::vector<int32_t> ordinary_;
  int32_t* data_ = nullptr;
};

engine::Call call_of(const What& what, int rank, int size, int root, const void* in, void* out,
                     uint64_t count, bool in_place) {
  schedule::Collective collective;
  collective.operation = what.operation;
  collective.root = root;
  collective.in_place = in_place;
  auto plan = std::make_shared<engine::Plan>();
  plan->schedule = make_plan("direct", collective, rank, size)->schedule;
  plan->board = what.use;
  engine::Call call = all_reduce(plan, in, out, count, tbcclInt32);
  call.operation = "an operation of the test";
  call.peer = root;
  return call;
}

// One call of one rank, and whether all that it may write is right and nothing else was written.
std::string run(Group& group, const What& what, int rank, int root, uint64_t count, bool in_place,
                bool shared) {
  const int size = group.size();
  const auto n = static_cast<uint64_t>(size), own = static_cast<uint64_t>(rank);
  const uint64_t inputs = what.input_blocks ? n : 1, outputs = what.output_blocks ? n : 1;
  Numbers apart(inputs * count, shared), out(std::max(inputs, outputs) * count, shared);
  // In place: the one block is where it belongs in the larger buffer.
  int32_t* in = in_place ? out.data() : apart.data();
  int32_t* result = out.data();
  if (in_place && inputs < outputs) in += own * count;
  if (in_place && outputs < inputs) result += own * count;
  for (uint64_t b = 0; b < inputs; ++b) {
    for (uint64_t i = 0; i < count; ++i) in[b * count + i] = given(rank, b, i);
  }
  const engine::Call call = call_of(what, rank, size, root, in, result, count, in_place);
  if (Status s = group.lane(rank).run(group.channel(rank), call); !s.ok()) return s.text();
  for (uint64_t b = 0; b < outputs; ++b) {
    for (uint64_t i = 0; i < count; ++i) {
      int32_t right = expected(what, rank, size, root, b, i);
      const bool from_in = in_place && right == kUntouched && result + b * count == in;
      if (from_in) right = given(rank, b, i);
      if (result[b * count + i] != right) {
        return "block " + std::to_string(b) + ", element " + std::to_string(i);
      }
    }
  }
  for (uint64_t b = 0; b < inputs && !in_place; ++b) {
    for (uint64_t i = 0; i < count; ++i) {
      if (in[b * count + i] != given(rank, b, i)) return "the input was changed";
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every operation over a board is right for any length, in place or not, from any root") {
  GroupOptions options;
  options.wire = Wire::kShared;
  options.size = GENERATE(2, 3, 5);
  Group group(options);
  std::vector<std::string> wrong(options.size);
  group.each([&](int rank) {
    int number = 0;
    for (const What& what : kAll) {
      // One chunk and more of them, whole or by pieces for each rank; from 256 K on referred to.
      for (const uint64_t count :
           {0, 1, 3, 4, 5, 8, 9, 1000, 13'104, 13'105, 32'767, 65'536, 65'537, 200'003, 300'000}) {
        for (const bool in_place : {false, true}) {
          const int root = ++number % options.size;
          // Each rank decides for itself whether its memory can be read by others.
          const bool shared = (number / 2 + rank) % 3 != 0;
          // In place means something only for the root where it alone has both buffers.
          const bool here =
              in_place && (!what.rooted || (rank == root && what.operation != tbcclOpReduce) ||
                           what.operation == tbcclOpReduce);
          const std::string text = run(group, what, rank, root, count, here, shared);
          if (!text.empty() && wrong[rank].empty()) {
            wrong[rank] = "operation " + std::to_string(what.operation) + " of " +
                          std::to_string(count) + (here ? " in place: " : ": ") + text;
          }
        }
      }
    }
  });
  for (const std::string& text : wrong) REQUIRE(text == "");
}

// Who gives and gets nothing back goes on, one turn ahead at most: a root that comes late finds
// everything.
TEST_CASE("ranks that only give do not wait for the root of a board's gather") {
  GroupOptions options;
  options.wire = Wire::kShared;
  options.size = 2;
  Group group(options);
  const What gather = kAll[6], reduce = kAll[0];
  REQUIRE(run(group, gather, 1, 0, 100, false, false) == "");
  std::string last;
  std::thread second([&] { last = run(group, reduce, 1, 0, 100, false, false); });
  CHECK(run(group, gather, 0, 0, 100, false, false) == "");
  CHECK(run(group, reduce, 0, 0, 100, false, false) == "");
  second.join();
  CHECK(last == "");
}

// Vectors that were referred to are their owners' again when the call returns, also where only one
// rank reads them.
TEST_CASE("a board's gather keeps referred memory until the root has read it") {
  GroupOptions options;
  options.wire = Wire::kShared;
  options.size = 3;
  Group group(options);
  std::vector<std::string> wrong(options.size);
  constexpr uint64_t kCount = 400'000;
  group.each([&](int rank) {
    for (int round = 0; round < 10; ++round) {
      for (const What& what : {kAll[6], kAll[0]}) {
        // run() frees the memory, or spoils it, at once.
        const std::string text = run(group, what, rank, round % 3, kCount, false, true);
        if (!text.empty()) wrong[rank] = text;
      }
    }
  });
  for (const std::string& text : wrong) REQUIRE(text == "");
}

TEST_CASE("a board's rooted operations find calls that do not match") {
  GroupOptions options;
  options.wire = Wire::kShared;
  options.size = 2;
  Group group(options);
  std::vector<Status> results(2);
  group.each([&](int rank) {
    std::vector<int32_t> in(200, 1), out(200, 0);
    auto call = call_of(kAll[7], rank, 2, 0, in.data(), out.data(), 64, false);
    call.fingerprint = static_cast<uint64_t>(rank + 1);
    call.timeout_ns = 20'000 * kMillisecond;
    results[rank] = group.lane(rank).run(group.channel(rank), call);
    // The root of a scatter reads nobody's part: it learns of it by the next call.
    if (results[rank].ok()) results[rank] = group.lane(rank).run(group.channel(rank), call);
  });
  for (const Status& result : results) {
    INFO(result.text());
    REQUIRE(result.code() == tbcclInvalidUsage);
    REQUIRE(result.text().find("different arguments") != std::string::npos);
  }
}

}  // namespace tbccl::testing
