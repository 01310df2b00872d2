#include "verify.h"

#include <cstring>
#include <vector>

#include "base/formatted.h"
#include "numbers.h"
#include "verify_random.h"

namespace tbccl::perf {
namespace {

template <class F>
bool within(const unsigned char* a, const unsigned char* b, int ulps) {
  typename F::Bits x, y;
  std::memcpy(&x, a, sizeof(x));
  std::memcpy(&y, b, sizeof(y));
  const int64_t difference = F::order(x) - F::order(y);
  return difference <= ulps && difference >= -ulps;
}

// Only float8 is ever compared with a tolerance.
bool equal(const Type& type, const unsigned char* a, const unsigned char* b, int ulps) {
  if (ulps == 0) return std::memcmp(a, b, type.bytes) == 0;
  return type.code == tbcclFloat8e4m3 ? within<Float8e4m3>(a, b, ulps)
                                      : within<Float8e5m2>(a, b, ulps);
}

uint64_t one_bits(const Type& type) {
  switch (type.code) {
    case tbcclFloat16:
      return Float16::encode({false, 1, 0});
    case tbcclBfloat16:
      return Bfloat16::encode({false, 1, 0});
    case tbcclFloat8e4m3:
      return Float8e4m3::encode({false, 1, 0});
    case tbcclFloat8e5m2:
      return Float8e5m2::encode({false, 1, 0});
    case tbcclFloat32:
    case tbcclComplex64:
      return Float32::encode({false, 1, 0});
    case tbcclFloat64:
    case tbcclComplex128:
      return Float64::encode({false, 1, 0});
    default:
      return 1;
  }
}

template <class F>
double decoded(const void* element) {
  typename F::Bits bits;
  std::memcpy(&bits, element, sizeof(bits));
  return F::decode(bits).value();
}

std::string value_text(const Type& type, const void* element) {
  switch (type.code) {
    case tbcclFloat16:
      return formatted(" ({})", decoded<Float16>(element));
    case tbcclBfloat16:
      return formatted(" ({})", decoded<Bfloat16>(element));
    case tbcclFloat8e4m3:
      return formatted(" ({})", decoded<Float8e4m3>(element));
    case tbcclFloat8e5m2:
      return formatted(" ({})", decoded<Float8e5m2>(element));
    case tbcclFloat32:
      return formatted(" ({})", decoded<Float32>(element));
    case tbcclFloat64:
      return formatted(" ({})", decoded<Float64>(element));
    default:
      return "";
  }
}

}  // namespace

void fill_input(const Data& data, int rank, uint64_t first, uint64_t count, void* out) {
  switch (data.type.family) {
    case Family::kFloat:
      return fill_floats(data, rank, first, count, out);
    case Family::kComplex:
      return fill_complex(data, rank, first, count, out);
    default:
      return fill_integers(data, rank, first, count, out);
  }
}

void fill_expected(const Data& data, uint64_t first, uint64_t count, void* out) {
  fill_prefix(data, data.ranks, first, count, out);
}

void fill_prefix(const Data& data, int ranks, uint64_t first, uint64_t count, void* out) {
  fill_input(data, combined(ranks), first, count, out);
}

void fill_bytes(uint64_t seed, int rank, uint64_t first, uint64_t bytes, void* out) {
  auto* to = static_cast<unsigned char*>(out);
  for (uint64_t done = 0; done < bytes; done += sizeof(uint64_t)) {
    const uint64_t word = rank_hash(element_hash(seed, (first + done) / sizeof(uint64_t)), rank);
    std::memcpy(to + done, &word, bytes - done < sizeof(word) ? bytes - done : sizeof(word));
  }
}

void fill_moved(uint64_t seed, int rank, uint64_t first, uint64_t bytes, void* out) {
  const uint64_t before = first % sizeof(uint64_t);
  if (bytes == 0) return;
  std::vector<unsigned char> words(before + bytes);
  fill_bytes(seed, rank, first - before, words.size(), words.data());
  std::memcpy(out, words.data() + before, bytes);
}

void fill_scalar(const Type& type, int rank, void* out) {
  if (type.family == Family::kInteger) {
    fill_integer_scalar(type, rank, out);
  } else {
    fill_float_scalar(type, rank, out);
  }
}

void fill_neutral(const Type& type, Op op, uint64_t count, void* out) {
  auto* to = static_cast<unsigned char*>(out);
  std::memset(to, 0, count * type.bytes);
  if (op != Op::kProd) return;
  const uint64_t one = one_bits(type);
  // Complex: one in the real component. Little-endian, as everything here.
  const size_t stored = type.family == Family::kComplex ? type.bytes / 2 : type.bytes;
  for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * type.bytes, &one, stored);
}

int tolerance(const Data& data) {
  if (data.op != Op::kAvg || data.type.family != Family::kFloat || data.type.bytes != 1) return 0;
  const int precision =
      data.type.code == tbcclFloat8e4m3 ? Float8e4m3::kPrecision : Float8e5m2::kPrecision;
  const bool counts_that_far = data.ranks <= 1 << precision;
  const bool power_of_two = (data.ranks & (data.ranks - 1)) == 0;
  return counts_that_far || power_of_two ? 0 : 1;
}

uint64_t count_wrong(const Type& type, const void* got, const void* expected, uint64_t count,
                     int ulps, uint64_t* first) {
  if (std::memcmp(got, expected, count * type.bytes) == 0) return 0;
  const auto* a = static_cast<const unsigned char*>(got);
  const auto* b = static_cast<const unsigned char*>(expected);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (equal(type, a + i * type.bytes, b + i * type.bytes, ulps)) continue;
    if (wrong++ == 0) *first = i;
  }
  return wrong;
}

std::string element_text(const Type& type, const void* element) {
  const auto* bytes = static_cast<const unsigned char*>(element);
  std::string text = "0x";
  for (size_t i = type.bytes; i-- > 0;) text += formatted("{:02x}", bytes[i]);
  return text + value_text(type, element);
}

}  // namespace tbccl::perf
