// Trees, chains and scatter_gather through the public API, each forced: all roots, in place, none
// to many elements, over shared memory and TCP. A margin around every receive buffer, and the
// receive buffers of ranks that get nothing, must stay as they are.
#include <algorithm>
#include <string>
#include <vector>

#include "unit/api/job.h"
#include "unit/api/variables.h"

namespace {

using Vector = std::vector<int32_t>;

constexpr size_t kMargin = 16;
constexpr int32_t kUntouched = -77;

struct Case {
  tbcclOperation_t operation;
  size_t count;
  int root;
  bool in_place;
  std::string text() const {
    return "operation " + std::to_string(operation) + ", count " + std::to_string(count) +
           ", root " + std::to_string(root) + (in_place ? ", in place" : "");
  }
};

int32_t value(int rank, size_t i) { return static_cast<int32_t>(i % 1009) * (rank + 3) + rank; }

int32_t sum(int size, size_t i) {
  int32_t total = 0;
  for (int rank = 0; rank < size; ++rank) total += value(rank, i);
  return total;
}

bool moves_blocks(const Case& c) {
  return c.operation == tbcclOpGather || c.operation == tbcclOpScatter;
}

// What a rank contributes: blocks of its own, of the root of a scatter one for everybody.
Vector contribution(const Case& c, int rank, int size) {
  if (c.operation == tbcclOpBroadcast && rank != c.root) return {};
  if (c.operation == tbcclOpScatter && rank != c.root) return {};
  Vector in(c.operation == tbcclOpScatter ? c.count * static_cast<size_t>(size) : c.count);
  for (size_t i = 0; i < in.size(); ++i) in[i] = value(rank, i);
  return in;
}

// What it must receive; empty: nothing, and its buffer is not to be written.
Vector result(const Case& c, int rank, int size) {
  const bool gathers = c.operation == tbcclOpGather;
  if ((gathers || c.operation == tbcclOpReduce) && rank != c.root) return {};
  Vector out(gathers ? c.count * static_cast<size_t>(size) : c.count);
  for (size_t i = 0; i < out.size(); ++i) {
    if (gathers)
      out[i] = value(static_cast<int>(i / c.count), i % c.count);
    else if (c.operation == tbcclOpScatter)
      out[i] = value(c.root, static_cast<size_t>(rank) * c.count + i);
    else
      out[i] = c.operation == tbcclOpBroadcast ? value(c.root, i) : sum(size, i);
  }
  return out;
}

tbcclResult_t call(const Case& c, const void* in, void* out, tbcclComm_t comm) {
  switch (c.operation) {
    case tbcclOpAllReduce:
      return tbcclAllReduce(in, out, c.count, tbcclInt32, tbcclSum, comm, nullptr);
    case tbcclOpBroadcast:
      return tbcclBroadcast(in, out, c.count, tbcclInt32, c.root, comm, nullptr);
    case tbcclOpReduce:
      return tbcclReduce(in, out, c.count, tbcclInt32, tbcclSum, c.root, comm, nullptr);
    case tbcclOpGather:
      return tbcclGather(in, out, c.count, tbcclInt32, c.root, comm, nullptr);
    default:
      return tbcclScatter(in, out, c.count, tbcclInt32, c.root, comm, nullptr);
  }
}

// In place the root of a scatter receives where its block is.
void run_scatter_in_place(const Case& c, int size, tbcclComm_t comm, Findings& found) {
  const Vector in = contribution(c, c.root, size);
  Vector data = in;
  found.expect(call(c, data.data(), data.data() + static_cast<size_t>(c.root) * c.count, comm) ==
                   tbcclSuccess,
               c.text() + ": " + tbcclGetLastError(comm));
  found.expect(data == in, c.text() + ": the buffer is wrong");
}

void run(const Case& c, int rank, int size, tbcclComm_t comm, Findings& found) {
  if (c.in_place && c.operation == tbcclOpScatter && rank == c.root)
    return run_scatter_in_place(c, size, comm, found);
  const Vector in = contribution(c, rank, size), out = result(c, rank, size);
  const size_t room = out.empty() ? c.count : out.size();
  Vector receive(room + 2 * kMargin, kUntouched);
  int32_t* const to = receive.data() + kMargin;
  Vector send = in;
  const int32_t* from = send.data();
  if (c.in_place && !out.empty() && !in.empty()) {
    const size_t own = moves_blocks(c) ? static_cast<size_t>(rank) * c.count : 0;
    std::copy(in.begin(), in.end(), to + own);
    from = to + own;
  }
  Vector want(receive.size(), kUntouched);
  std::copy(out.begin(), out.end(), want.begin() + kMargin);
  found.expect(call(c, from, to, comm) == tbcclSuccess, c.text() + ": " + tbcclGetLastError(comm));
  found.expect(send == in, c.text() + ": the send buffer was written");
  found.expect(receive == want, c.text() + ": the receive buffer is wrong");
}

}  // namespace

TEST_CASE("trees, chains and scatter_gather, forced, from every root") {
  const char* const transports = GENERATE("shm", "tcp");
  const char* const algorithm = GENERATE("tree", "chain", "scatter_gather", "double_tree");
  const int size = GENERATE(2, 3, 6);
  INFO(transports << ", " << algorithm << ", " << size << " ranks");
  const std::string name = algorithm;
  std::vector<tbcclOperation_t> operations = {tbcclOpBroadcast, tbcclOpReduce};
  if (name == "double_tree") operations.push_back(tbcclOpAllReduce);
  if (name == "tree") operations.insert(operations.end(), {tbcclOpGather, tbcclOpScatter});
  std::string algorithms;
  for (tbcclOperation_t operation : operations) {
    const char* const key = operation == tbcclOpBroadcast   ? "broadcast:"
                            : operation == tbcclOpReduce    ? ";reduce:"
                            : operation == tbcclOpAllReduce ? ";allreduce:"
                            : operation == tbcclOpGather    ? ";gather:"
                                                            : ";scatter:";
    algorithms += key + name;
  }
  const Variables variables{{"TBCCL_TRANSPORT", transports}, {"TBCCL_ALGO", algorithms.c_str()}};
  Job job(size);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    for (tbcclOperation_t operation : operations)
      for (size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{1000}, size_t{70'001}})
        for (bool in_place : {false, true})
          for (int root = 0; root < (operation == tbcclOpAllReduce ? 1 : size); ++root)
            run({operation, count, root, in_place}, rank, size, comm, found);
  });
}

TEST_CASE("trees and chains with a pre-multiplied sum and an average") {
  const char* const algorithm = GENERATE("tree", "chain", "scatter_gather", "double_tree");
  const std::string reduce = std::string("reduce:") + algorithm;
  const std::string all = reduce + (reduce == "reduce:double_tree" ? ";allreduce:double_tree" : "");
  const Variables variables{{"TBCCL_ALGO", all.c_str()}};
  constexpr int kSize = 7;
  Job job(kSize);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const float scalar = static_cast<float>(1 << rank);
    tbcclRedOp_t scaled;
    found.expect(tbcclRedOpCreatePreMulSum(&scaled, &scalar, tbcclFloat32, tbcclScalarHostImmediate,
                                           comm) == tbcclSuccess,
                 tbcclGetLastError(comm));
    for (size_t count : {size_t{1}, size_t{3}, size_t{50'000}})
      for (int root = 0; root < kSize; ++root) {
        const std::vector<float> in(count, 3), before(count, -1);
        const auto is = [&](const std::vector<float>& out, float x) {
          return out == (rank == root ? std::vector<float>(count, x) : before);
        };
        std::vector<float> out = before;
        tbcclReduce(in.data(), out.data(), count, tbcclFloat32, scaled, root, comm, nullptr);
        found.expect(is(out, 3 * 127), "a pre-multiplied reduce is wrong");
        out = before;
        tbcclReduce(in.data(), out.data(), count, tbcclFloat32, tbcclAvg, root, comm, nullptr);
        found.expect(is(out, 3), "an average is wrong");
        out = in;
        tbcclAllReduce(out.data(), out.data(), count, tbcclFloat32, scaled, comm, nullptr);
        found.expect(out == std::vector<float>(count, 3 * 127), "an all-reduce is wrong");
        found.expect(in == std::vector<float>(count, 3), "the send buffer was written");
      }
    found.expect(tbcclRedOpDestroy(scaled, comm) == tbcclSuccess, tbcclGetLastError(comm));
  });
}
