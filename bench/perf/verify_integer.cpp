// Integers and bool: all bits random, arithmetic modulo 2^bits.
#include <cstring>
#include <type_traits>

#include "verify_random.h"

namespace tbccl::perf {
namespace {

// Whether `rank` is true in a logical operation: a quarter of the elements have all ranks true, a
// quarter all but one false, the rest are random, so that every operator sees both outcomes.
bool truth(uint64_t element, int ranks, int rank) {
  switch (element & 3) {
    case 0:
      return true;
    case 1:
      return below(mix(element), static_cast<uint64_t>(ranks)) == static_cast<uint64_t>(rank);
    default:
      return (rank_hash(element, rank) >> 40 & 1) != 0;
  }
}

template <class T>
T true_value(uint64_t hash) {
  const T value = static_cast<T>(hash >> 8);
  return value != 0 ? value : T{1};
}

template <class T>
T contribution(Op op, uint64_t element, int ranks, int rank) {
  const uint64_t random = rank_hash(element, rank);
  switch (op) {
    case Op::kProd:
      return static_cast<T>(random | 1);
    case Op::kBitAnd:
      return static_cast<T>(random | element);
    case Op::kBitOr:
      return static_cast<T>(random & element);
    case Op::kLogicalAnd:
    case Op::kLogicalOr:
    case Op::kLogicalXor:
      return truth(element, ranks, rank) ? true_value<T>(random) : T{0};
    default:
      return static_cast<T>(random);
  }
}

uint64_t scalar(int rank) { return 2 * static_cast<uint64_t>(rank) + 3; }

// The operator on two values held in 64 bits each (sign-extended where T is signed).
template <class T>
uint64_t combine(Op op, uint64_t a, uint64_t b) {
  switch (op) {
    case Op::kProd:
      return a * b;
    case Op::kMax:
      return static_cast<T>(a) > static_cast<T>(b) ? a : b;
    case Op::kMin:
      return static_cast<T>(a) < static_cast<T>(b) ? a : b;
    case Op::kBitAnd:
      return a & b;
    case Op::kBitOr:
      return a | b;
    case Op::kBitXor:
      return a ^ b;
    case Op::kLogicalAnd:
      return static_cast<uint64_t>(a != 0 && b != 0);
    case Op::kLogicalOr:
      return static_cast<uint64_t>(a != 0 || b != 0);
    case Op::kLogicalXor:
      return static_cast<uint64_t>((a != 0) != (b != 0));
    default:
      return a + b;
  }
}

bool is_logical(Op op) { return op >= Op::kLogicalAnd; }

template <class T>
uint64_t operand(Op op, uint64_t element, int ranks, int rank) {
  uint64_t value = static_cast<uint64_t>(contribution<T>(op, element, ranks, rank));
  if (op == Op::kMulSum) value *= scalar(rank);
  if (is_logical(op)) value = static_cast<uint64_t>(value != 0);
  return value;
}

// Of the first `combined` of `ranks` ranks.
template <class T>
T result(Op op, uint64_t element, int ranks, int combined) {
  uint64_t value = operand<T>(op, element, ranks, 0);
  for (int rank = 1; rank < combined; ++rank) {
    value = combine<T>(op, value, operand<T>(op, element, ranks, rank));
  }
  const T wrapped = static_cast<T>(value);
  if (op != Op::kAvg) return wrapped;
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  return static_cast<T>(static_cast<Wide>(wrapped) / static_cast<Wide>(combined));
}

template <class T>
void fill(const Data& data, int rank, uint64_t first, uint64_t count, void* out) {
  auto* bytes = static_cast<unsigned char*>(out);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t element = element_hash(data.seed, first + i);
    const T value = is_combined(rank) ? result<T>(data.op, element, data.ranks, -rank)
                                      : contribution<T>(data.op, element, data.ranks, rank);
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

// Bool: min and bitwise and mean "all", max and bitwise or mean "any".
Op bool_operator(Op op) {
  switch (op) {
    case Op::kMin:
    case Op::kBitAnd:
      return Op::kLogicalAnd;
    case Op::kMax:
    case Op::kBitOr:
      return Op::kLogicalOr;
    case Op::kBitXor:
      return Op::kLogicalXor;
    default:
      return op;
  }
}

template <class T>
void store_scalar(int rank, void* out) {
  const T value = static_cast<T>(scalar(rank));
  std::memcpy(out, &value, sizeof(T));
}

}  // namespace

void fill_integers(const Data& data, int rank, uint64_t first, uint64_t count, void* out) {
  switch (data.type.code) {
    case tbcclInt8:
      return fill<int8_t>(data, rank, first, count, out);
    case tbcclInt16:
      return fill<int16_t>(data, rank, first, count, out);
    case tbcclInt32:
      return fill<int32_t>(data, rank, first, count, out);
    case tbcclInt64:
      return fill<int64_t>(data, rank, first, count, out);
    case tbcclUint8:
      return fill<uint8_t>(data, rank, first, count, out);
    case tbcclUint16:
      return fill<uint16_t>(data, rank, first, count, out);
    case tbcclUint32:
      return fill<uint32_t>(data, rank, first, count, out);
    case tbcclUint64:
      return fill<uint64_t>(data, rank, first, count, out);
    case tbcclBool: {
      Data logical = data;
      logical.op = bool_operator(data.op);
      return fill<uint8_t>(logical, rank, first, count, out);
    }
    default:
      return;
  }
}

void fill_integer_scalar(const Type& type, int rank, void* out) {
  switch (type.bytes) {
    case 1:
      return store_scalar<uint8_t>(rank, out);
    case 2:
      return store_scalar<uint16_t>(rank, out);
    case 4:
      return store_scalar<uint32_t>(rank, out);
    default:
      return store_scalar<uint64_t>(rank, out);
  }
}

}  // namespace tbccl::perf
