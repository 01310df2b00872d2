// The generator behind tbccl-perf's verification: whatever the order in which contributions are
// combined, no partial result is ever rounded, and the end is what was predicted.
#include "perf/verify.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "perf/numbers.h"
#include "perf/shares.h"
#include "unit/catch.h"

using namespace tbccl::perf;

namespace {

constexpr uint64_t kElements = 200;

const int kRankCounts[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64};

struct FormatInfo {
  const char* type;
  Limits limits;
};
const FormatInfo kFormats[] = {
    {"half", {Float16::kPrecision, Float16::kLowest, Float16::kHighest}},
    {"bfloat16", {Bfloat16::kPrecision, Bfloat16::kLowest, Bfloat16::kHighest}},
    {"float", {Float32::kPrecision, Float32::kLowest, Float32::kHighest}},
    {"double", {Float64::kPrecision, Float64::kLowest, Float64::kHighest}},
    {"f8e4m3", {Float8e4m3::kPrecision, Float8e4m3::kLowest, Float8e4m3::kHighest}},
    {"f8e5m2", {Float8e5m2::kPrecision, Float8e5m2::kLowest, Float8e5m2::kHighest}},
};

// Zero, or a normal number of the format.
bool representable(double value, const Limits& limits) {
  if (value == 0) return true;
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(std::fabs(value), &exponent), limits.precision);
  // f8e4m3 has no 1.111 * 2^8, and kHighest leaves its whole last binade out: sums may use it up
  // to 2^8 exactly, which is normal as well.
  const bool in_range = exponent - 1 >= limits.lowest && exponent - 1 <= limits.highest + 1;
  return in_range && scaled == std::floor(scaled);
}

template <class F>
double decode_element(const std::vector<unsigned char>& bytes, uint64_t i) {
  typename F::Bits bits;
  std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
  return F::decode(bits).value();
}

double decode(const Type& type, const std::vector<unsigned char>& bytes, uint64_t i) {
  switch (type.code) {
    case tbcclFloat16:
      return decode_element<Float16>(bytes, i);
    case tbcclBfloat16:
      return decode_element<Bfloat16>(bytes, i);
    case tbcclFloat32:
      return decode_element<Float32>(bytes, i);
    case tbcclFloat64:
      return decode_element<Float64>(bytes, i);
    case tbcclFloat8e4m3:
      return decode_element<Float8e4m3>(bytes, i);
    default:
      return decode_element<Float8e5m2>(bytes, i);
  }
}

std::vector<std::vector<unsigned char>> all_inputs(const Data& data, uint64_t count) {
  std::vector<std::vector<unsigned char>> inputs(static_cast<size_t>(data.ranks));
  for (int rank = 0; rank < data.ranks; ++rank) {
    auto& input = inputs[static_cast<size_t>(rank)];
    input.resize(count * data.type.bytes);
    fill_input(data, rank, 0, count, input.data());
  }
  return inputs;
}

std::vector<unsigned char> expected(const Data& data, uint64_t count) {
  std::vector<unsigned char> out(count * data.type.bytes);
  fill_expected(data, 0, count, out.data());
  return out;
}

// Orders worth trying: ascending, descending, by magnitude, and turned by each hop count of a ring.
std::vector<std::vector<size_t>> orders(const std::vector<double>& values) {
  std::vector<std::vector<size_t>> all;
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t turn = 0; turn < std::min<size_t>(values.size(), 5); ++turn) {
    all.push_back(order);
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  const auto less = [&](size_t a, size_t b) { return values[a] < values[b]; };
  std::sort(order.begin(), order.end(), less);  // most negative first: the widest partial sums
  all.push_back(order);
  std::reverse(order.begin(), order.end());
  all.push_back(order);
  return all;
}

}  // namespace

TEST_CASE("Partial sums are exact in every order") {
  for (const FormatInfo& format : kFormats) {
    for (int ranks : kRankCounts) {
      const Data data{*find_type(format.type), Op::kSum, ranks, 42};
      const auto inputs = all_inputs(data, kElements);
      const auto result = expected(data, kElements);
      for (uint64_t i = 0; i < kElements; ++i) {
        std::vector<double> values;
        for (const auto& input : inputs) values.push_back(decode(data.type, input, i));
        for (const auto& order : orders(values)) {
          double sum = 0;
          for (size_t rank : order) {
            sum += values[rank];
            if (!representable(sum, format.limits)) FAIL(format.type << " " << ranks << " " << sum);
          }
          if (sum != decode(data.type, result, i)) FAIL(format.type << " " << ranks << " end");
        }
      }
    }
  }
}

TEST_CASE("Combinations of the first ranks are exact and what their contributions give") {
  for (const FormatInfo& format : kFormats) {
    for (Op op : {Op::kSum, Op::kProd, Op::kMax}) {
      Data data{*find_type(format.type), op, 7, 42};
      data.prefixes = true;
      const auto inputs = all_inputs(data, kElements);
      std::vector<double> values(kElements);
      for (int ranks = 1; ranks <= data.ranks; ++ranks) {
        std::vector<unsigned char> prefix(kElements * data.type.bytes);
        fill_prefix(data, ranks, 0, kElements, prefix.data());
        for (uint64_t i = 0; i < kElements; ++i) {
          const double value = decode(data.type, inputs[static_cast<size_t>(ranks - 1)], i);
          double& sofar = values[i];
          if (ranks == 1) {
            sofar = value;
          } else if (op == Op::kSum) {
            sofar += value;
          } else {
            sofar = op == Op::kProd ? sofar * value : std::max(sofar, value);
          }
          if (!representable(sofar, format.limits)) FAIL(format.type << " " << sofar);
          if (sofar != decode(data.type, prefix, i)) FAIL(format.type << " " << ranks << " ranks");
        }
        if (ranks == data.ranks) REQUIRE(prefix == expected(data, kElements));
      }
    }
  }
}

TEST_CASE("Averages of the first ranks are rounded once, also below the normal range") {
  REQUIRE(round_to<Float16>(std::ldexp(1.0, -24)) == 1);
  REQUIRE(round_to<Float16>(-std::ldexp(3.0, -25)) == 0x8002);    // a tie goes to the even one
  REQUIRE(round_to<Float16>(std::ldexp(2047.0, -25)) == 0x0400);  // up to the normal numbers
  REQUIRE(round_to<Float8e5m2>(std::ldexp(1.0, -13) / 3) == 3);
  REQUIRE(round_to<Float32>(1.0 / 3) == 0x3eaaaaab);
  Data data{*find_type("float"), Op::kAvg, 4, 1};
  data.prefixes = true;
  const auto inputs = all_inputs(data, kElements);
  std::vector<unsigned char> prefix(kElements * data.type.bytes);
  fill_prefix(data, 3, 0, kElements, prefix.data());
  for (uint64_t i = 0; i < kElements; ++i) {
    float sum = 0;
    for (size_t rank = 0; rank < 3; ++rank)
      sum += static_cast<float>(decode(data.type, inputs[rank], i));
    REQUIRE(static_cast<double>(sum / 3) == decode(data.type, prefix, i));
  }
}

TEST_CASE("Integers of the first ranks wrap, and their average is truncated") {
  Data data{*find_type("int8"), Op::kAvg, 5, 9};
  data.prefixes = true;
  const auto inputs = all_inputs(data, kElements);
  std::vector<unsigned char> prefix(kElements);
  fill_prefix(data, 3, 0, kElements, prefix.data());
  for (uint64_t i = 0; i < kElements; ++i) {
    const auto sum = static_cast<int8_t>(inputs[0][i] + inputs[1][i] + inputs[2][i]);
    REQUIRE(static_cast<int8_t>(prefix[i]) == sum / 3);
  }
}

TEST_CASE("Sums of all subsets of four ranks are exact") {
  for (const FormatInfo& format : kFormats) {
    const Data data{*find_type(format.type), Op::kSum, 4, 7};
    const auto inputs = all_inputs(data, kElements);
    for (uint64_t i = 0; i < kElements; ++i) {
      for (unsigned subset = 1; subset < 16; ++subset) {
        double sum = 0;
        for (unsigned rank = 0; rank < 4; ++rank) {
          if ((subset >> rank & 1) != 0) sum += decode(data.type, inputs[rank], i);
        }
        if (!representable(sum, format.limits)) FAIL(format.type << " subset " << subset);
      }
    }
  }
}

TEST_CASE(
    "Sums have both signs, no zero contributions where the format can do without, and variety") {
  for (const FormatInfo& format : kFormats) {
    for (int ranks : {2, 4, 7}) {
      const Data data{*find_type(format.type), Op::kSum, ranks, 3};
      const auto inputs = all_inputs(data, kElements);
      std::set<double> seen;
      for (uint64_t i = 0; i < kElements; ++i) {
        for (int rank = 0; rank < ranks; ++rank) {
          const double value = decode(data.type, inputs[static_cast<size_t>(rank)], i);
          if (value == 0) FAIL(format.type << " zero");
          seen.insert(value);
          if (rank > 0 &&
              (value < 0) == (decode(data.type, inputs[static_cast<size_t>(rank - 1)], i) < 0)) {
            FAIL(format.type << " signs do not alternate");
          }
        }
      }
      REQUIRE(seen.size() > 20);
    }
  }
}

TEST_CASE("Averages: exact sums, exact quotients where promised") {
  for (const FormatInfo& format : kFormats) {
    for (int ranks : kRankCounts) {
      const Data data{*find_type(format.type), Op::kAvg, ranks, 11};
      const auto inputs = all_inputs(data, kElements);
      const auto result = expected(data, kElements);
      for (uint64_t i = 0; i < kElements; ++i) {
        std::vector<double> values;
        for (const auto& input : inputs) values.push_back(decode(data.type, input, i));
        double end = 0;
        for (const auto& order : orders(values)) {
          double sum = 0;
          for (size_t rank : order) {
            sum += values[rank];
            if (!representable(sum, format.limits)) FAIL(format.type << " " << ranks << " " << sum);
          }
          end = sum;
        }
        const double want = decode(data.type, result, i);
        if (tolerance(data) == 0) {
          if (want != end / ranks) FAIL(format.type << " " << ranks << " quotient");
        } else if (std::fabs(want - end / ranks) >
                   std::fabs(want) / (1 << format.limits.precision)) {
          FAIL(format.type << " " << ranks << " quotient is not rounded to nearest");
        }
      }
    }
  }
}

TEST_CASE("Only float8 averages over uncountably many ranks have a tolerance") {
  for (const Type& type : all_types()) {
    for (const Operator& entry : all_operators()) {
      for (int ranks : kRankCounts) {
        const int ulps = tolerance({type, entry.op, ranks, 0});
        const bool may = entry.op == Op::kAvg &&
                         ((type.code == tbcclFloat8e4m3 && ranks == 33) ||
                          (type.code == tbcclFloat8e5m2 && (ranks == 12 || ranks == 33)));
        REQUIRE(ulps == (may ? 1 : 0));
      }
    }
  }
}

TEST_CASE("Products stay normal in every order and end where predicted") {
  for (const FormatInfo& format : kFormats) {
    for (int ranks : kRankCounts) {
      const Data data{*find_type(format.type), Op::kProd, ranks, 5};
      const auto inputs = all_inputs(data, kElements);
      const auto result = expected(data, kElements);
      for (uint64_t i = 0; i < kElements; ++i) {
        std::vector<double> values;
        for (const auto& input : inputs) values.push_back(decode(data.type, input, i));
        for (const auto& order : orders(values)) {
          double product = 1;
          for (size_t rank : order) {
            product *= values[rank];
            if (product == 0 || !representable(product, format.limits)) {
              FAIL(format.type << " " << ranks << " " << product);
            }
          }
          if (product != decode(data.type, result, i)) FAIL(format.type << " " << ranks << " end");
        }
      }
    }
  }
}

TEST_CASE("Minimum, maximum and pre-multiplied sum against plain arithmetic") {
  for (const FormatInfo& format : kFormats) {
    const Type& type = *find_type(format.type);
    for (int ranks : kRankCounts) {
      for (Op op : {Op::kMin, Op::kMax, Op::kMulSum}) {
        const Data data{type, op, ranks, 13};
        const auto inputs = all_inputs(data, kElements);
        const auto result = expected(data, kElements);
        for (uint64_t i = 0; i < kElements; ++i) {
          double value = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            const double x = decode(type, inputs[static_cast<size_t>(rank)], i);
            if (op == Op::kMulSum) {
              std::vector<unsigned char> scalar(16);
              fill_scalar(type, rank, scalar.data());
              const double term = decode(type, scalar, 0) * x;
              if (!representable(term, format.limits)) FAIL(format.type << " term " << term);
              value += term;
            } else {
              value = rank == 0 ? x : op == Op::kMin ? std::min(value, x) : std::max(value, x);
            }
          }
          if (value != decode(type, result, i))
            FAIL(format.type << " " << ranks << " element " << i);
        }
      }
    }
  }
}

namespace {

// Reduces complex128 contributions in the given order by the textbook formula.
void check_complex(Op op, int ranks) {
  const Type& type = *find_type("complex128");
  const Data data{type, op, ranks, 17};
  const auto inputs = all_inputs(data, kElements);
  const auto result = expected(data, kElements);
  const auto component = [](const std::vector<unsigned char>& bytes, uint64_t i) {
    double value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
    return value;
  };
  std::vector<double> index(static_cast<size_t>(ranks), 0.0);
  for (uint64_t i = 0; i < kElements; ++i) {
    for (const auto& order : orders(index)) {
      double re = op == Op::kProd ? 1 : 0, im = 0;
      for (size_t rank : order) {
        double x = component(inputs[rank], 2 * i), y = component(inputs[rank], 2 * i + 1);
        if (op == Op::kMulSum) {
          std::vector<unsigned char> scalar(16);
          fill_scalar(type, static_cast<int>(rank), scalar.data());
          const double a = component(scalar, 0), b = component(scalar, 1);
          const double u = a * x - b * y, v = a * y + b * x;
          x = u, y = v;
        }
        if (op == Op::kProd) {
          const double u = re * x - im * y, v = re * y + im * x;
          re = u, im = v;
        } else {
          re += x, im += y;
        }
      }
      if (op == Op::kAvg) re /= ranks, im /= ranks;
      const double want[2] = {component(result, 2 * i), component(result, 2 * i + 1)};
      const double got[2] = {re, im};
      if (std::memcmp(want, got, sizeof(want)) != 0) {
        FAIL("complex, operator " << static_cast<int>(op) << ", " << ranks << " ranks: " << re
                                  << " " << im << ", predicted " << want[0] << " " << want[1]);
      }
    }
  }
}

}  // namespace

TEST_CASE("Complex results are the same bits in every order") {
  for (int ranks : kRankCounts) {
    for (Op op : {Op::kSum, Op::kProd, Op::kAvg, Op::kMulSum}) check_complex(op, ranks);
  }
}

namespace {

template <class T>
void check_integers(const char* name) {
  const Type& type = *find_type(name);
  for (int ranks : kRankCounts) {
    for (const Operator& entry : all_operators()) {
      const Data data{type, entry.op, ranks, 19};
      const auto inputs = all_inputs(data, kElements);
      const auto result = expected(data, kElements);
      for (uint64_t i = 0; i < kElements; ++i) {
        T value{};
        for (int rank = 0; rank < ranks; ++rank) {
          T x;
          std::memcpy(&x, inputs[static_cast<size_t>(rank)].data() + i * sizeof(T), sizeof(T));
          if (entry.op == Op::kMulSum) {
            std::vector<unsigned char> bytes(16);
            fill_scalar(type, rank, bytes.data());
            T scalar;
            std::memcpy(&scalar, bytes.data(), sizeof(T));
            x = static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(scalar));
          }
          const bool logical = entry.op >= Op::kLogicalAnd;
          if (rank == 0) {
            value = logical ? static_cast<T>(x != 0) : x;
            continue;
          }
          switch (entry.op) {
            case Op::kProd:
              value = static_cast<T>(static_cast<uint64_t>(value) * static_cast<uint64_t>(x));
              break;
            case Op::kMax:
              value = std::max(value, x);
              break;
            case Op::kMin:
              value = std::min(value, x);
              break;
            case Op::kBitAnd:
              value = static_cast<T>(value & x);
              break;
            case Op::kBitOr:
              value = static_cast<T>(value | x);
              break;
            case Op::kBitXor:
              value = static_cast<T>(value ^ x);
              break;
            case Op::kLogicalAnd:
              value = static_cast<T>(value != 0 && x != 0);
              break;
            case Op::kLogicalOr:
              value = static_cast<T>(value != 0 || x != 0);
              break;
            case Op::kLogicalXor:
              value = static_cast<T>((value != 0) != (x != 0));
              break;
            default:
              value = static_cast<T>(static_cast<uint64_t>(value) + static_cast<uint64_t>(x));
              break;
          }
        }
        if (entry.op == Op::kAvg) {
          value = std::is_signed_v<T>
                      ? static_cast<T>(static_cast<int64_t>(value) / ranks)
                      : static_cast<T>(static_cast<uint64_t>(value) / static_cast<uint64_t>(ranks));
        }
        T want;
        std::memcpy(&want, result.data() + i * sizeof(T), sizeof(T));
        if (value != want) FAIL(name << " " << entry.name << " " << ranks << " element " << i);
      }
    }
  }
}

}  // namespace

TEST_CASE("Integers of every size wrap as predicted") {
  check_integers<int8_t>("int8");
  check_integers<uint8_t>("uint8");
  check_integers<int16_t>("int16");
  check_integers<uint16_t>("uint16");
  check_integers<int32_t>("int32");
  check_integers<uint32_t>("uint32");
  check_integers<int64_t>("int64");
  check_integers<uint64_t>("uint64");
}

TEST_CASE("Bool: any non-zero byte is true, results are 0 or 1, both occur") {
  const Type& type = *find_type("bool");
  for (int ranks : kRankCounts) {
    for (const Operator& entry : all_operators()) {
      if (!is_legal(type, entry.op)) continue;
      const Data data{type, entry.op, ranks, 23};
      const auto inputs = all_inputs(data, kElements);
      const auto result = expected(data, kElements);
      uint64_t truths = 0;
      for (uint64_t i = 0; i < kElements; ++i) {
        int count = 0;
        for (const auto& input : inputs) count += input[i] != 0 ? 1 : 0;
        const bool all = count == ranks, any = count > 0, odd = count % 2 == 1;
        const bool is_and =
            entry.op == Op::kMin || entry.op == Op::kBitAnd || entry.op == Op::kLogicalAnd;
        const bool is_xor = entry.op == Op::kBitXor || entry.op == Op::kLogicalXor;
        REQUIRE(result[i] == static_cast<unsigned char>(is_and ? all : is_xor ? odd : any));
        truths += result[i];
      }
      REQUIRE(truths > 0);
      if (ranks < 5) REQUIRE(truths < kElements);
    }
  }
}

TEST_CASE("Contributions do not depend on where a range begins") {
  for (const Type& type : all_types()) {
    for (const Operator& entry : all_operators()) {
      if (!is_legal(type, entry.op)) continue;
      const Data data{type, entry.op, 3, 29};
      const auto whole = expected(data, 100);
      std::vector<unsigned char> part(40 * type.bytes);
      fill_expected(data, 60, 40, part.data());
      REQUIRE(std::memcmp(part.data(), whole.data() + 60 * type.bytes, part.size()) == 0);
    }
  }
  std::vector<unsigned char> whole(100), part(36);
  fill_bytes(1, 2, 0, whole.size(), whole.data());
  fill_bytes(1, 2, 64, part.size(), part.data());
  REQUIRE(std::memcmp(part.data(), whole.data() + 64, part.size()) == 0);
}

TEST_CASE("Seeds, ranks and places give different data") {
  unsigned char a[64], b[64], c[64];
  fill_bytes(1, 0, 0, sizeof(a), a);
  fill_bytes(2, 0, 0, sizeof(b), b);
  fill_bytes(1, 1, 0, sizeof(c), c);
  REQUIRE(std::memcmp(a, b, sizeof(a)) != 0);
  REQUIRE(std::memcmp(a, c, sizeof(a)) != 0);
  REQUIRE(std::memcmp(a, a + 32, 32) != 0);
}

TEST_CASE("Wrong elements are counted, and tolerated only within the tolerance") {
  const Type& type = *find_type("f8e5m2");
  const unsigned char want[4] = {0x40, 0x41, 0xc0, 0x80};
  unsigned char got[4] = {0x40, 0x42, 0xc1, 0x01};
  uint64_t first = 99;
  REQUIRE(count_wrong(type, want, want, 4, 0, &first) == 0);
  REQUIRE(first == 99);
  REQUIRE(count_wrong(type, got, want, 4, 0, &first) == 3);
  REQUIRE(first == 1);
  REQUIRE(count_wrong(type, got, want, 4, 1, &first) == 0);
  got[2] = 0xc2;
  REQUIRE(count_wrong(type, got, want, 4, 1, &first) == 1);
  REQUIRE(first == 2);
}

TEST_CASE("Numbers are encoded and decoded bit by bit") {
  const Number number{true, 5, -1};  // -2.5
  REQUIRE(Float32::encode(number) == 0xc0200000u);
  REQUIRE(Float64::encode(number) == 0xc004000000000000u);
  REQUIRE(Float16::encode(number) == 0xc100u);
  REQUIRE(Bfloat16::encode(number) == 0xc020u);
  REQUIRE(Float8e5m2::encode(number) == 0xc1u);
  REQUIRE(Float8e4m3::encode(number) == 0xc2u);
  REQUIRE(Float8e4m3::decode(0xc2).value() == -2.5);
  REQUIRE(Float16::decode(0x0001).value() == std::ldexp(1.0, -24));
  REQUIRE(round_to<Float8e5m2>(1.125) == Float8e5m2::encode({false, 1, 0}));  // tie to even
  REQUIRE(round_to<Float8e5m2>(1.375) == Float8e5m2::encode({false, 3, -1}));
  REQUIRE(round_to<Float8e5m2>(1.9) == Float8e5m2::encode({false, 2, 0}));
}
