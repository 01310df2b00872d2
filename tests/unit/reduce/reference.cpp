#include "unit/reduce/reference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace reference {
namespace {

template <class T>
T from_bytes(const Element& element, size_t index = 0) {
  T value;
  std::memcpy(&value, element.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
Element to_bytes(T value) {
  Element element(sizeof(T));
  std::memcpy(element.data(), &value, sizeof(T));
  return element;
}

// --- integers: in 128 bits, cut to the width after every step ---

template <class T>
__int128 integer_step(tbcclRedOp_t op, __int128 a, __int128 b) {
  using Bits = unsigned __int128;
  switch (op) {
    case tbcclSum:
    case tbcclAvg:
      return a + b;
    case tbcclProd:
      return static_cast<__int128>(static_cast<Bits>(a) * static_cast<Bits>(b));
    case tbcclMax:
      return a > b ? a : b;
    case tbcclMin:
      return a < b ? a : b;
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
    default:
      return (a != 0) != (b != 0);
  }
}

template <class T>
Element fold_integers(tbcclRedOp_t op, const std::vector<Element>& sources, int32_t divisor) {
  const bool logical = op >= tbcclLogicalAnd;
  T acc = from_bytes<T>(sources[0]);
  if (logical) acc = acc != 0;
  for (size_t j = 1; j < sources.size(); ++j) {
    acc = static_cast<T>(integer_step<T>(op, acc, from_bytes<T>(sources[j])));
  }
  if (op == tbcclAvg) acc = static_cast<T>(static_cast<__int128>(acc) / divisor);
  return to_bytes(acc);
}

Element fold_bools(tbcclRedOp_t op, const std::vector<Element>& sources) {
  bool acc = sources[0][0] != 0;
  for (size_t j = 1; j < sources.size(); ++j) {
    const bool next = sources[j][0] != 0;
    if (op == tbcclMin || op == tbcclBitAnd || op == tbcclLogicalAnd) {
      acc = acc && next;
    } else if (op == tbcclMax || op == tbcclBitOr || op == tbcclLogicalOr) {
      acc = acc || next;
    } else {
      acc = acc != next;
    }
  }
  return {static_cast<unsigned char>(acc ? 1 : 0)};
}

// --- real numbers ---

// For float, in double: both are rounded correctly by that, because a double has more than twice
// the digits of a float. For double the processor is the reference.
template <class T>
T real_step(tbcclRedOp_t op, T a, T b) {
  const volatile double x = a;
  const volatile double y = b;
  switch (op) {
    case tbcclSum:
    case tbcclAvg:
      return static_cast<T>(x + y);
    case tbcclProd:
      return static_cast<T>(x * y);
    default:
      break;
  }
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  const bool a_below = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return (op == tbcclMin) == a_below ? a : b;
}

template <class T>
T real_divide(T a, int32_t divisor) {
  return static_cast<T>(static_cast<double>(a) / divisor);
}

template <class T>
T canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <class T>
Element fold_reals(tbcclRedOp_t op, const std::vector<Element>& sources, int32_t divisor) {
  T acc = from_bytes<T>(sources[0]);
  for (size_t j = 1; j < sources.size(); ++j) {
    acc = real_step<T>(op, acc, from_bytes<T>(sources[j]));
  }
  if (op == tbcclAvg) acc = real_divide(acc, divisor);
  return to_bytes(canonical(acc));
}

template <class Bits>
Element fold_small(const Format& format, tbcclRedOp_t op, const std::vector<Element>& sources,
                   int32_t divisor) {
  auto acc = static_cast<float>(decode(format, from_bytes<Bits>(sources[0])));
  for (size_t j = 1; j < sources.size(); ++j) {
    acc =
        real_step<float>(op, acc, static_cast<float>(decode(format, from_bytes<Bits>(sources[j]))));
  }
  if (op == tbcclAvg) acc = real_divide(acc, divisor);
  return to_bytes(static_cast<Bits>(encode(format, acc)));
}

// --- complex numbers ---

template <class T>
Element complex_product(const Element& a, const Element& b) {
  const T ar = from_bytes<T>(a, 0), ai = from_bytes<T>(a, 1);
  const T br = from_bytes<T>(b, 0), bi = from_bytes<T>(b, 1);
  // The second operand is negated rather than subtracted: the same number, other instructions.
  const T real =
      real_step<T>(tbcclSum, real_step<T>(tbcclProd, ar, br), -real_step<T>(tbcclProd, ai, bi));
  const T imaginary =
      real_step<T>(tbcclSum, real_step<T>(tbcclProd, ar, bi), real_step<T>(tbcclProd, ai, br));
  Element result = to_bytes(real);
  const Element second = to_bytes(imaginary);
  result.insert(result.end(), second.begin(), second.end());
  return result;
}

template <class T>
Element canonical_parts(const Element& element) {
  Element result = to_bytes(canonical(from_bytes<T>(element, 0)));
  const Element second = to_bytes(canonical(from_bytes<T>(element, 1)));
  result.insert(result.end(), second.begin(), second.end());
  return result;
}

template <class T>
Element fold_complex(tbcclRedOp_t op, const std::vector<Element>& sources, int32_t divisor) {
  if (op == tbcclProd) {
    Element acc = sources[0];
    for (size_t j = 1; j < sources.size(); ++j) acc = complex_product<T>(acc, sources[j]);
    return canonical_parts<T>(acc);
  }
  Element result;
  for (size_t part = 0; part < 2; ++part) {
    std::vector<Element> parts;
    for (const Element& s : sources) parts.push_back(to_bytes(from_bytes<T>(s, part)));
    const Element folded = fold_reals<T>(op, parts, divisor);
    result.insert(result.end(), folded.begin(), folded.end());
  }
  return result;
}

template <class T>
std::vector<Element> elements(std::initializer_list<T> values) {
  std::vector<Element> result;
  for (const T value : values) result.push_back(to_bytes(value));
  return result;
}

template <class T>
std::vector<Element> awkward_integers() {
  using L = std::numeric_limits<T>;
  return elements<T>({0, 1, 2, 3, 7, 100, L::max(), static_cast<T>(L::max() - 1), L::min(),
                      static_cast<T>(L::min() + 1), static_cast<T>(-1), static_cast<T>(-2),
                      static_cast<T>(-7), static_cast<T>(L::max() / 2 + 1)});
}

std::vector<Element> pairs_of(const std::vector<Element>& parts) {
  std::vector<Element> result;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const size_t j : {i, (i + 1) % parts.size(), (i * 5 + 3) % parts.size()}) {
      Element both = parts[i];
      both.insert(both.end(), parts[j].begin(), parts[j].end());
      result.push_back(both);
    }
  }
  return result;
}

std::vector<Element> awkward_floats() {
  // zeros, ones, smallest and largest denormal, smallest normal, largest, infinities, NaNs
  // (quiet, signalling, negative with payload), and numbers that round.
  return elements<uint32_t>({0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x00000001, 0x80000001,
                             0x007fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x7f800000,
                             0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345, 0x3f800001, 0x33ffffff,
                             0x4b7fffff, 0x3eaaaaab, 0xc0490fdb, 0x5f000000, 0x1f800000});
}

std::vector<Element> awkward_doubles() {
  return elements<uint64_t>(
      {0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
       0x0000000000000001, 0x8000000000000001, 0x000fffffffffffff, 0x0010000000000000,
       0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
       0x7ff8000000000000, 0x7ff0000000000001, 0xfff8123456789abc, 0x3ff0000000000001,
       0x3fd5555555555555, 0xc00921fb54442d18, 0x5fe0000000000000, 0x2000000000000000});
}

template <class Bits>
std::vector<Element> every_pattern(uint32_t step) {
  std::vector<Element> result;
  for (uint32_t bits = 0; bits < (1u << (8 * sizeof(Bits))); bits += step) {
    result.push_back(to_bytes(static_cast<Bits>(bits)));
  }
  return result;
}

}  // namespace

const std::vector<tbcclDataType_t> kTypes = {
    tbcclInt8,    tbcclUint8,   tbcclInt32,   tbcclUint32,    tbcclInt64,      tbcclUint64,
    tbcclFloat16, tbcclFloat32, tbcclFloat64, tbcclBfloat16,  tbcclFloat8e4m3, tbcclFloat8e5m2,
    tbcclInt16,   tbcclUint16,  tbcclBool,    tbcclComplex64, tbcclComplex128};
const std::vector<tbcclRedOp_t> kOps = {
    tbcclSum,   tbcclProd,   tbcclMax,        tbcclMin,       tbcclAvg,       tbcclBitAnd,
    tbcclBitOr, tbcclBitXor, tbcclLogicalAnd, tbcclLogicalOr, tbcclLogicalXor};

double decode(const Format& format, uint32_t bits) {
  const int m = format.mantissa_bits;
  const int exponent_mask = (1 << format.exponent_bits) - 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> m) & exponent_mask;
  const int mantissa = static_cast<int>(bits & ((1u << m) - 1u));
  const double sign = (bits >> (m + format.exponent_bits)) != 0 ? -1.0 : 1.0;
  if (format.infinities && exponent == exponent_mask) {
    return mantissa == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
  }
  if (!format.infinities && exponent == exponent_mask && mantissa == (1 << m) - 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - m);
  return sign * std::ldexp(mantissa + (1 << m), exponent - bias - m);
}

uint32_t encode(const Format& format, double value) {
  const int m = format.mantissa_bits;
  const auto exponent_mask = (1u << format.exponent_bits) - 1u;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t infinity = exponent_mask << m;
  const uint32_t nan = format.infinities ? infinity | 1u << (m - 1) : infinity | ((1u << m) - 1u);
  if (std::isnan(value)) return nan;
  const uint32_t sign = std::signbit(value) ? 1u << (m + format.exponent_bits) : 0u;
  const uint32_t overflow = format.infinities ? infinity | sign : nan;
  if (std::isinf(value)) return overflow;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  double steps = std::nearbyint(std::ldexp(magnitude, m - exponent));  // ties to even by default
  int rounded_exponent = exponent;
  if (steps == std::ldexp(1, m + 1)) {
    steps /= 2;
    ++rounded_exponent;
  }
  const double largest_exponent = format.infinities ? bias : bias + 1;
  if (rounded_exponent > largest_exponent) return overflow;
  const auto mantissa = static_cast<uint32_t>(steps);
  uint32_t bits;
  if (mantissa < (1u << m)) {
    bits = mantissa;
  } else {
    bits = static_cast<uint32_t>(rounded_exponent + bias) << m | (mantissa - (1u << m));
  }
  if (!format.infinities && bits >= nan) return nan;
  return bits | sign;
}

Element fold(tbcclDataType_t type, tbcclRedOp_t op, const std::vector<Element>& sources,
             int32_t divisor) {
  switch (type) {
    case tbcclInt8:
      return fold_integers<int8_t>(op, sources, divisor);
    case tbcclUint8:
      return fold_integers<uint8_t>(op, sources, divisor);
    case tbcclInt16:
      return fold_integers<int16_t>(op, sources, divisor);
    case tbcclUint16:
      return fold_integers<uint16_t>(op, sources, divisor);
    case tbcclInt32:
      return fold_integers<int32_t>(op, sources, divisor);
    case tbcclUint32:
      return fold_integers<uint32_t>(op, sources, divisor);
    case tbcclInt64:
      return fold_integers<int64_t>(op, sources, divisor);
    case tbcclUint64:
      return fold_integers<uint64_t>(op, sources, divisor);
    case tbcclFloat16:
      return fold_small<uint16_t>(kHalf, op, sources, divisor);
    case tbcclBfloat16:
      return fold_small<uint16_t>(kBfloat16, op, sources, divisor);
    case tbcclFloat8e4m3:
      return fold_small<uint8_t>(kE4m3, op, sources, divisor);
    case tbcclFloat8e5m2:
      return fold_small<uint8_t>(kE5m2, op, sources, divisor);
    case tbcclFloat32:
      return fold_reals<float>(op, sources, divisor);
    case tbcclFloat64:
      return fold_reals<double>(op, sources, divisor);
    case tbcclBool:
      return fold_bools(op, sources);
    case tbcclComplex64:
      return fold_complex<float>(op, sources, divisor);
    case tbcclComplex128:
      return fold_complex<double>(op, sources, divisor);
  }
  return {};
}

Element scale(tbcclDataType_t type, const Element& scalar, const Element& value) {
  return fold(type, tbcclProd, {scalar, value}, 1);
}

std::vector<Element> awkward(tbcclDataType_t type) {
  switch (type) {
    case tbcclInt8:
    case tbcclUint8:
    case tbcclFloat8e4m3:
    case tbcclFloat8e5m2:
      return every_pattern<uint8_t>(1);
    case tbcclBool:
      return elements<uint8_t>({0, 1, 2, 0x80, 0xff, 0x10});
    case tbcclInt16:
      return awkward_integers<int16_t>();
    case tbcclUint16:
      return awkward_integers<uint16_t>();
    case tbcclInt32:
      return awkward_integers<int32_t>();
    case tbcclUint32:
      return awkward_integers<uint32_t>();
    case tbcclInt64:
      return awkward_integers<int64_t>();
    case tbcclUint64:
      return awkward_integers<uint64_t>();
    case tbcclFloat16:
    case tbcclBfloat16: {
      std::vector<Element> result = every_pattern<uint16_t>(509);
      // Zeros, denormals, the largest, infinities and NaNs of both formats.
      for (const Element& e : elements<uint16_t>(
               {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x7bff, 0xfbff,
                0x7c00, 0xfc00, 0x7c01, 0x7e00, 0xfe12, 0x007f, 0x0080, 0x3f80, 0xbf80, 0x7f7f,
                0xff7f, 0x7f80, 0xff80, 0x7f81, 0x7fc0, 0xffc1, 0x3555, 0x3eab, 0x3c01, 0x3f81})) {
        result.push_back(e);
      }
      return result;
    }
    case tbcclFloat32:
      return awkward_floats();
    case tbcclFloat64:
      return awkward_doubles();
    case tbcclComplex64:
      return pairs_of(awkward_floats());
    case tbcclComplex128:
      return pairs_of(awkward_doubles());
  }
  return {};
}

bool legal(tbcclDataType_t type, tbcclRedOp_t op) {
  const bool arithmetic = op == tbcclSum || op == tbcclProd || op == tbcclAvg;
  const bool order = op == tbcclMin || op == tbcclMax;
  switch (type) {
    case tbcclComplex64:
    case tbcclComplex128:
      return arithmetic;
    case tbcclFloat8e4m3:
    case tbcclFloat8e5m2:
    case tbcclFloat16:
    case tbcclBfloat16:
    case tbcclFloat32:
    case tbcclFloat64:
      return arithmetic || order;
    case tbcclBool:
      return !arithmetic;
    default:
      return true;
  }
}

size_t bytes(tbcclDataType_t type) { return awkward(type).front().size(); }

}  // namespace reference
