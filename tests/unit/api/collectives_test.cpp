// Every collective through the public API: all types and operators, in place, all roots, zero
// counts, variable counts. Canaries around every buffer, send buffers compared afterwards.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "reduce/reduce.h"
#include "unit/api/job.h"
#include "unit/api/variables.h"

namespace {

using Bytes = std::vector<unsigned char>;
using tbccl::reduce::size_of;

constexpr size_t kCanary = 64;
constexpr tbcclDataType_t kTypes[] = {
    tbcclInt8,       tbcclUint8,      tbcclInt16,   tbcclUint16,    tbcclInt32,     tbcclUint32,
    tbcclInt64,      tbcclUint64,     tbcclFloat16, tbcclBfloat16,  tbcclFloat32,   tbcclFloat64,
    tbcclFloat8e4m3, tbcclFloat8e5m2, tbcclBool,    tbcclComplex64, tbcclComplex128};
constexpr tbcclRedOp_t kOperators[] = {tbcclSum,        tbcclProd,      tbcclMax,       tbcclMin,
                                       tbcclAvg,        tbcclBitAnd,    tbcclBitOr,     tbcclBitXor,
                                       tbcclLogicalAnd, tbcclLogicalOr, tbcclLogicalXor};

bool is_bool(tbcclDataType_t t) { return t == tbcclBool; }

template <class T>
void put(unsigned char* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

void store(unsigned char* at, tbcclDataType_t type, int v) {
  const auto f = static_cast<float>(v);
  switch (type) {
    case tbcclFloat16:
      return put(at, tbccl::reduce::float_to_half(f));
    case tbcclBfloat16:
      return put(at, tbccl::reduce::float_to_bfloat16(f));
    case tbcclFloat8e4m3:
      return put(at, tbccl::reduce::float_to_e4m3(f));
    case tbcclFloat8e5m2:
      return put(at, tbccl::reduce::float_to_e5m2(f));
    case tbcclComplex64:
      put(at + 4, 0.0f);
      return put(at, f);
    case tbcclFloat32:
      return put(at, f);
    case tbcclComplex128:
      put(at + 8, 0.0);
      return put(at, static_cast<double>(v));
    case tbcclFloat64:
      return put(at, static_cast<double>(v));
    default: {
      const auto wide = static_cast<uint64_t>(v);  // little-endian; small and not negative
      std::memcpy(at, &wide, size_of(type));
    }
  }
}

int combine(tbcclRedOp_t op, int a, int b) {
  switch (op) {
    case tbcclProd:
      return a * b;
    case tbcclMax:
      return std::max(a, b);
    case tbcclMin:
      return std::min(a, b);
    case tbcclAvg:
      return a;
    case tbcclBitAnd:
      return a & b;
    case tbcclBitOr:
      return a | b;
    case tbcclBitXor:
      return a ^ b;
    case tbcclLogicalAnd:
      return a != 0 && b != 0;
    case tbcclLogicalOr:
      return a != 0 || b != 0;
    case tbcclLogicalXor:
      return (a != 0) != (b != 0);
    default:
      return a + b;
  }
}

struct Case {
  tbcclOperation_t operation;
  tbcclDataType_t type;
  tbcclRedOp_t op;
  size_t count;
  int root;
  bool in_place;
  std::string text() const {
    return "operation " + std::to_string(operation) + ", type " + std::to_string(type) + ", op " +
           std::to_string(op) + ", count " + std::to_string(count) + ", root " +
           std::to_string(root) + (in_place ? ", in place" : "");
  }
};

// Exact in every type, whatever is combined; of bool its two values.
int value(const Case& c, int rank, size_t i) {
  const auto x = static_cast<int>(i);
  if (c.type == tbcclBool) return (x + rank * 3) % 5 > 1 ? 1 : 0;
  // Sums of up to eight have two bits after the first: all that the shortest type has.
  if (c.op == tbcclAvg) return x % (c.type == tbcclFloat8e5m2 ? 3 : 4);
  if (c.op == tbcclProd) return 1 + (x + rank) % 2;
  if (c.op >= tbcclLogicalAnd) return (x >> rank) & 1;
  return (x + rank * 3) % (c.op == tbcclSum ? 2 : 4);
}

tbcclResult_t call(const Case& c, const void* send, void* recv, tbcclComm_t comm) {
  switch (c.operation) {
    case tbcclOpReduce:
      return tbcclReduce(send, recv, c.count, c.type, c.op, c.root, comm, nullptr);
    case tbcclOpAllGather:
      return tbcclAllGather(send, recv, c.count, c.type, comm, nullptr);
    case tbcclOpReduceScatter:
      return tbcclReduceScatter(send, recv, c.count, c.type, c.op, comm, nullptr);
    case tbcclOpAllToAll:
      return tbcclAllToAll(send, recv, c.count, c.type, comm, nullptr);
    case tbcclOpGather:
      return tbcclGather(send, recv, c.count, c.type, c.root, comm, nullptr);
    case tbcclOpScatter:
      return tbcclScatter(send, recv, c.count, c.type, c.root, comm, nullptr);
    case tbcclOpScan:
      return tbcclScan(send, recv, c.count, c.type, c.op, comm, nullptr);
    default:
      return tbcclExScan(send, recv, c.count, c.type, c.op, comm, nullptr);
  }
}

// Blocks that one rank gives and gets, and which of the other buffer's blocks lies at the same
// place when in place.
struct Shape {
  size_t in, out, own_in, own_out;
};

Shape shape(const Case& c, int rank, int size) {
  const auto n = static_cast<size_t>(size), r = static_cast<size_t>(rank);
  const bool root = rank == c.root;
  switch (c.operation) {
    case tbcclOpReduce:
      return {1, root ? 1u : 0u, 0, 0};
    case tbcclOpAllGather:
      return {1, n, 0, r};
    case tbcclOpReduceScatter:
      return {n, 1, r, 0};
    case tbcclOpAllToAll:
      return {n, n, 0, 0};
    case tbcclOpGather:
      return {1, root ? n : 0u, 0, r};
    case tbcclOpScatter:
      return {root ? n : 0u, 1, r, 0};
    case tbcclOpExScan:
      return {1, rank == 0 ? 0u : 1u, 0, 0};
    default:
      return {1, 1, 0, 0};
  }
}

int folded(const Case& c, int ranks, size_t i) {
  int x = value(c, 0, i);
  for (int r = 1; r < ranks; ++r) x = combine(c.op, x, value(c, r, i));
  return x;
}

// Element i of what `rank` must receive.
int expected(const Case& c, int rank, int size, size_t i) {
  const auto r = static_cast<size_t>(rank);
  switch (c.operation) {
    case tbcclOpReduce:
      return folded(c, size, i);
    case tbcclOpReduceScatter:
      return folded(c, size, r * c.count + i);
    case tbcclOpAllGather:
    case tbcclOpGather:
      return value(c, static_cast<int>(i / c.count), i % c.count);
    case tbcclOpScatter:
      return value(c, c.root, r * c.count + i);
    case tbcclOpAllToAll:
      return value(c, static_cast<int>(i / c.count), r * c.count + i % c.count);
    case tbcclOpScan:
      return folded(c, rank + 1, i);
    default:
      return folded(c, rank, i);
  }
}

void run(const Case& c, int rank, int size, tbcclComm_t comm, Findings& found) {
  const size_t element = size_of(c.type);
  const Shape s = shape(c, rank, size);
  const size_t block = c.count * element;
  // One stretch of memory in place: the larger of the two buffers.
  const bool in_place = c.in_place && s.in > 0 && s.out > 0;
  Bytes send(s.in * block + 2 * kCanary, 0xc3), recv(s.out * block + 2 * kCanary, 0xa5);
  for (size_t i = 0; i < s.in * c.count; ++i)
    store(&send[kCanary + i * element], c.type, value(c, rank, i));
  Bytes& shared = s.in > s.out ? send : recv;
  unsigned char* input = &send[kCanary];
  unsigned char* output = &recv[kCanary];
  if (in_place && &shared == &recv) {
    input = output + s.own_out * block;
    if (s.in * block > 0) std::memcpy(input, &send[kCanary], s.in * block);
  } else if (in_place) {
    output = input + s.own_in * block;
  }
  Bytes want_send = send, want_recv = recv;
  Bytes& want = in_place && &shared == &send ? want_send : want_recv;
  const size_t at = in_place && &shared == &send ? s.own_in * block : 0;
  for (size_t i = 0; i < s.out * c.count; ++i)
    store(&want[kCanary + at + i * element], c.type, expected(c, rank, size, i));
  const tbcclResult_t result = call(c, input, s.out > 0 ? output : nullptr, comm);
  found.expect(result == tbcclSuccess, c.text() + ": " + tbcclGetLastError(comm));
  found.expect(send == want_send, c.text() + ": the send buffer is wrong");
  found.expect(recv == want_recv, c.text() + ": the receive buffer is wrong");
}

bool legal(tbcclDataType_t type, tbcclRedOp_t op) {
  return tbccl::reduce::legal(type, op) && !(is_bool(type) && op == tbcclAvg);
}

constexpr tbcclOperation_t kReductions[] = {tbcclOpReduce, tbcclOpReduceScatter, tbcclOpScan,
                                            tbcclOpExScan};
constexpr tbcclOperation_t kMoves[] = {tbcclOpAllGather, tbcclOpAllToAll, tbcclOpGather,
                                       tbcclOpScatter};

bool rooted(tbcclOperation_t o) {
  return o == tbcclOpReduce || o == tbcclOpGather || o == tbcclOpScatter;
}

}  // namespace

TEST_CASE("reductions and scans with every type and operator") {
  const int size = GENERATE(1, 2, 4);
  Job job(size);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    size_t turn = 0;
    for (tbcclOperation_t operation : kReductions)
      for (tbcclDataType_t type : kTypes)
        for (tbcclRedOp_t op : kOperators) {
          if (!legal(type, op)) continue;
          for (bool in_place : {false, true}) {
            const size_t counts[] = {5, 40, 200, 1};
            const size_t count = counts[turn % 4];
            run({operation, type, op, count, static_cast<int>(turn) % size, in_place}, rank, size,
                comm, found);
            ++turn;
          }
        }
  });
}

TEST_CASE("every collective from every root and for many counts") {
  const int size = GENERATE(1, 2, 3, 5);
  Job job(size);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    std::vector<tbcclOperation_t> all(std::begin(kReductions), std::end(kReductions));
    all.insert(all.end(), std::begin(kMoves), std::end(kMoves));
    for (tbcclOperation_t operation : all)
      for (size_t count : {size_t{0}, size_t{1}, size_t{63}, size_t{3000}, size_t{70'001}})
        for (bool in_place : {false, true})
          for (int root = 0; root < (rooted(operation) ? size : 1); ++root)
            run({operation, tbcclInt32, tbcclSum, count, root, in_place}, rank, size, comm, found);
    for (tbcclOperation_t operation : kMoves)
      for (tbcclDataType_t type : kTypes)
        run({operation, type, tbcclMax, 33, 0, false}, rank, size, comm, found);
  });
}

TEST_CASE("reductions and scans with operators made by the user") {
  Job job(4);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    const std::string text = "rank " + std::to_string(rank);
    const float scalar = static_cast<float>(1 << rank);
    tbcclRedOp_t scaled, joined;
    found.expect(tbcclRedOpCreatePreMulSum(&scaled, &scalar, tbcclFloat32, tbcclScalarHostImmediate,
                                           comm) == tbcclSuccess,
                 text);
    for (size_t count : {size_t{3}, size_t{5000}}) {
      const std::vector<float> in(4 * count, 3);
      const auto all = [&](float x) { return std::vector<float>(count, x); };
      std::vector<float> out = all(-1);
      found.expect(tbcclReduce(in.data(), out.data(), count, tbcclFloat32, scaled, 2, comm,
                               nullptr) == tbcclSuccess,
                   text);
      found.expect(out == all(rank == 2 ? 45 : -1), "pre-multiplied reduce is wrong");
      found.expect(tbcclReduceScatter(in.data(), out.data(), count, tbcclFloat32, scaled, comm,
                                      nullptr) == tbcclSuccess,
                   text);
      found.expect(out == all(45), "pre-multiplied reduce-scatter is wrong");
      std::vector<float> place = in;
      float* const mine = place.data() + static_cast<size_t>(rank) * count;
      found.expect(tbcclReduceScatter(place.data(), mine, count, tbcclFloat32, scaled, comm,
                                      nullptr) == tbcclSuccess,
                   text);
      std::vector<float> want = in;
      std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(rank) * count),
                  count, 45.0f);
      found.expect(place == want, "pre-multiplied reduce-scatter in place is wrong");
      found.expect(tbcclScan(in.data(), out.data(), count, tbcclFloat32, scaled, comm, nullptr) ==
                       tbcclSuccess,
                   text);
      found.expect(out == all(static_cast<float>(3 * ((2 << rank) - 1))),
                   "pre-multiplied scan is wrong");
      out = all(-1);
      found.expect(tbcclExScan(in.data(), out.data(), count, tbcclFloat32, scaled, comm, nullptr) ==
                       tbcclSuccess,
                   text);
      found.expect(out == all(rank == 0 ? -1 : static_cast<float>(3 * ((1 << rank) - 1))),
                   "pre-multiplied exclusive scan is wrong");
      found.expect(in == std::vector<float>(4 * count, 3), "the send buffer was written");
    }
    // Digits joined in rank order: associative, not commutative.
    static const auto join = [](const void* a, void* b, size_t count, tbcclDataType_t, void*) {
      const auto* low = static_cast<const uint64_t*>(a);
      auto* high = static_cast<uint64_t*>(b);
      for (size_t i = 0; i < count; ++i) {
        uint64_t shift = 1;
        while (shift <= high[i]) shift *= 10;
        high[i] += low[i] * shift;
      }
    };
    found.expect(tbcclRedOpCreate(&joined, +join, nullptr, 0, comm) == tbcclSuccess, text);
    for (size_t count : {size_t{1}, size_t{5000}}) {
      const std::vector<uint64_t> in(4 * count, static_cast<uint64_t>(rank + 1));
      std::vector<uint64_t> out(count, 0);
      const auto is = [&](uint64_t x) { return out == std::vector<uint64_t>(count, x); };
      for (int root = 0; root < 4; ++root) {
        tbcclReduce(in.data(), out.data(), count, tbcclUint64, joined, root, comm, nullptr);
        if (rank == root) found.expect(is(1234), "reduce is not in rank order");
      }
      tbcclReduceScatter(in.data(), out.data(), count, tbcclUint64, joined, comm, nullptr);
      found.expect(is(1234), "reduce-scatter is not in rank order");
      tbcclScan(in.data(), out.data(), count, tbcclUint64, joined, comm, nullptr);
      const uint64_t prefix[] = {1, 12, 123, 1234};
      found.expect(is(prefix[rank]), "scan is not in rank order");
      tbcclExScan(in.data(), out.data(), count, tbcclUint64, joined, comm, nullptr);
      if (rank > 0) found.expect(is(prefix[rank - 1]), "exclusive scan is not in rank order");
    }
  });
}

TEST_CASE("every algorithm of exchanges, reduce-scatter and scans") {
  const char* const algorithms = GENERATE(
      "alltoall:pairwise;allgather:bruck;reducescatter:halving;scan:doubling;"
      "exscan:doubling",
      "alltoall:bruck;allgather:doubling;reducescatter:ring;scan:chain;exscan:chain");
  const int size = GENERATE(2, 3, 4, 6);
  const Variables variables{{"TBCCL_ALGO", algorithms}};
  INFO(algorithms << ", " << size << " ranks");
  Job job(size);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    constexpr tbcclOperation_t kAll[] = {tbcclOpAllToAll, tbcclOpAllGather, tbcclOpReduceScatter,
                                         tbcclOpScan, tbcclOpExScan};
    size_t turn = 0;
    for (tbcclOperation_t operation : kAll)
      for (int mix : {0, 1, 2}) {  // in place: none, all, some
        const bool in_place = mix == 1 || (mix == 2 && rank % 2 == 1);
        for (size_t count : {size_t{0}, size_t{1}, size_t{63}, size_t{3000}, size_t{70'001}})
          run({operation, tbcclInt32, tbcclSum, count, 0, in_place}, rank, size, comm, found);
        for (tbcclDataType_t type : kTypes)
          for (tbcclRedOp_t op : kOperators) {
            if (!legal(type, op)) continue;
            const size_t counts[] = {5, 200, 2000};
            run({operation, type, op, counts[turn++ % 3], 0, in_place}, rank, size, comm, found);
          }
      }
  });
}

TEST_CASE("scans keep rank order and scale, whatever the algorithm") {
  const char* const algorithms =
      GENERATE("scan:doubling;exscan:doubling", "scan:chain;exscan:chain");
  const int size = GENERATE(2, 5, 9);
  const Variables variables{{"TBCCL_ALGO", algorithms}};
  INFO(algorithms << ", " << size << " ranks");
  Job job(size);
  job.each([&](int rank, tbcclComm_t comm, Findings& found) {
    static const auto join = [](const void* a, void* b, size_t count, tbcclDataType_t, void*) {
      const auto* low = static_cast<const uint64_t*>(a);
      auto* high = static_cast<uint64_t*>(b);
      for (size_t i = 0; i < count; ++i) {
        uint64_t shift = 1;
        while (shift <= high[i]) shift *= 10;
        high[i] += low[i] * shift;
      }
    };
    const auto joined_below = [](int end) {  // 1234... of the ranks below `end`
      uint64_t number = 0;
      for (int r = 0; r < end; ++r) number = number * 10 + static_cast<uint64_t>(r + 1);
      return number;
    };
    const float scalar = static_cast<float>(1 << rank);
    tbcclRedOp_t joined, scaled;
    found.expect(tbcclRedOpCreate(&joined, +join, nullptr, 0, comm) == tbcclSuccess, "operator");
    found.expect(tbcclRedOpCreatePreMulSum(&scaled, &scalar, tbcclFloat32, tbcclScalarHostImmediate,
                                           comm) == tbcclSuccess,
                 "operator");
    for (size_t count : {size_t{1}, size_t{50'000}})
      for (bool in_place : {false, true}) {
        const std::vector<uint64_t> digits(count, static_cast<uint64_t>(rank + 1));
        std::vector<uint64_t> out = in_place ? digits : std::vector<uint64_t>(count, 0);
        tbcclScan(in_place ? out.data() : digits.data(), out.data(), count, tbcclUint64, joined,
                  comm, nullptr);
        found.expect(out == std::vector<uint64_t>(count, joined_below(rank + 1)),
                     "scan is not in rank order");
        out = digits;
        tbcclExScan(in_place ? out.data() : digits.data(), out.data(), count, tbcclUint64, joined,
                    comm, nullptr);
        found.expect(rank == 0 || out == std::vector<uint64_t>(count, joined_below(rank)),
                     "exclusive scan is not in rank order");

        const std::vector<float> threes(count, 3);
        std::vector<float> sums = in_place ? threes : std::vector<float>(count, -1);
        tbcclScan(in_place ? sums.data() : threes.data(), sums.data(), count, tbcclFloat32, scaled,
                  comm, nullptr);
        found.expect(sums == std::vector<float>(count, static_cast<float>(3 * ((2 << rank) - 1))),
                     "pre-multiplied scan is wrong");
        sums = threes;
        tbcclExScan(in_place ? sums.data() : threes.data(), sums.data(), count, tbcclFloat32,
                    scaled, comm, nullptr);
        const float below = static_cast<float>(3 * ((1 << rank) - 1));
        found.expect(rank == 0 || sums == std::vector<float>(count, below),
                     "pre-multiplied exclusive scan is wrong");
      }
  });
}
