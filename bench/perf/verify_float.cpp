// Floating point and complex types: exact numbers from shares.h, encoded without arithmetic.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "shares.h"
#include "verify_random.h"

namespace tbccl::perf {
namespace {

template <class F>
constexpr Limits limits_of() {
  return {F::kPrecision, F::kLowest, F::kHighest};
}

// Scalars of pre-multiplied sums: powers of two, turned by quarter turns for complex types.
struct Scalar {
  bool negative;
  int exponent;
  int turns;  // times i^turns; real types leave it out
};
constexpr std::array<Scalar, 4> kScalars = {
    {{false, 0, 0}, {false, 1, 1}, {true, -1, 0}, {true, 0, 1}}};

const Scalar& scalar_of(int rank) { return kScalars[static_cast<size_t>(rank) % kScalars.size()]; }

// number / (+-2^exponent)
Number divide(Number number, const Scalar& scalar) {
  if (number.mantissa != 0) {
    number.negative = number.negative != scalar.negative;
    number.exponent -= scalar.exponent;
  }
  return number;
}

// The carrier of the mantissa, the one with more than one bit, comes first; pairs stay pairs.
void put_carrier_first(std::span<Number> parts) {
  size_t carrier = 0;
  while (carrier < parts.size() - 1 && parts[carrier].mantissa == 1) ++carrier;
  std::rotate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(carrier), parts.end());
}

void make_parts(const Data& data, const Limits& limits, uint64_t element, std::span<Number> parts) {
  switch (data.op) {
    case Op::kProd:
      product_shares(limits, element, parts);
      if (data.prefixes) put_carrier_first(parts);
      return;
    case Op::kMax:
    case Op::kMin:
      return random_numbers(limits, element, parts);
    case Op::kAvg:
      return average_shares(limits, element, parts);
    default:
      return sum_shares(limits, element, parts);
  }
}

// A quotient that is no number of the format (float8 over many ranks, prefixes) is rounded once.
template <class F>
typename F::Bits average(std::span<const Number> parts) {
  const Number sum = exact_sum(parts);
  const auto size = static_cast<uint64_t>(parts.size());
  if (sum.mantissa % size == 0) {
    return F::encode({sum.negative, sum.mantissa / size, sum.exponent});
  }
  return round_to<F>(sum.value() / static_cast<double>(size));
}

template <class F>
typename F::Bits product(std::span<const Number> parts) {
  Number product{false, 1, 0};
  for (const Number& part : parts) {
    product.negative = product.negative != part.negative;
    product.mantissa *= part.mantissa;  // all but one are 1
    product.exponent += part.exponent;
  }
  return F::encode(product);
}

template <class F>
typename F::Bits extreme(std::span<const Number> parts, bool largest) {
  size_t best = 0;
  for (size_t i = 1; i < parts.size(); ++i) {
    const double difference = parts[i].value() - parts[best].value();
    if (largest ? difference > 0 : difference < 0) best = i;
  }
  return F::encode(parts[best]);
}

template <class F>
typename F::Bits real_result(Op op, std::span<const Number> parts) {
  switch (op) {
    case Op::kProd:
      return product<F>(parts);
    case Op::kMax:
    case Op::kMin:
      return extreme<F>(parts, op == Op::kMax);
    case Op::kAvg:
      return average<F>(parts);
    default:
      return F::encode(exact_sum(parts));
  }
}

template <class F>
void fill(const Data& data, int rank, uint64_t first, uint64_t count, void* out) {
  auto* bytes = static_cast<unsigned char*>(out);
  std::vector<Number> parts(static_cast<size_t>(data.ranks));
  for (uint64_t i = 0; i < count; ++i) {
    make_parts(data, limits_of<F>(), element_hash(data.seed, first + i), parts);
    typename F::Bits bits;
    if (is_combined(rank)) {
      bits = real_result<F>(data.op, std::span(parts).first(static_cast<size_t>(-rank)));
    } else {
      Number part = parts[static_cast<size_t>(rank)];
      if (data.op == Op::kMulSum) part = divide(part, scalar_of(rank));
      bits = F::encode(part);
    }
    std::memcpy(bytes + i * sizeof(bits), &bits, sizeof(bits));
  }
}

struct Complex {
  Number real, imaginary;
};

Number negated(Number number) {
  if (number.mantissa != 0) number.negative = !number.negative;
  return number;
}

// z * i^turns
Complex turned(Complex z, int turns) {
  for (int k = 0; k < (turns & 3); ++k) z = {negated(z.imaginary), z.real};
  return z;
}

// Quarter turns that `rank` contributes to a product; the carrier of the mantissas (the one with
// more than one bit) contributes both components instead.
int product_turns(uint64_t element, int rank) {
  return static_cast<int>(rank_hash(element ^ 5, rank) & 3);
}

template <class F>
class ComplexElement {
 public:
  ComplexElement(const Data& data)
      : data_(data),
        op_(data.op),
        real_(static_cast<size_t>(data.ranks)),
        imaginary_(static_cast<size_t>(data.ranks)) {}

  void make(uint64_t element) {
    element_ = element;
    make_parts(data_, limits_of<F>(), element, real_);
    make_parts(data_, limits_of<F>(), mix(element ^ 6), imaginary_);
    if (op_ != Op::kProd) return;
    Number second;  // the mantissa of the other component's carrier
    for (const Number& part : imaginary_) {
      if (part.mantissa > 1) second = part;
    }
    for (size_t rank = 0; rank < real_.size(); ++rank) {
      imaginary_[rank] = real_[rank].mantissa > 1 ? second : Number{};
    }
  }

  Complex contribution(int rank) const {
    const Complex z = part(rank);
    if (op_ != Op::kMulSum) return z;
    const Scalar& scalar = scalar_of(rank);
    return turned({divide(z.real, scalar), divide(z.imaginary, scalar)}, -scalar.turns);
  }

  // Of the first `ranks` ranks.
  void result(size_t ranks, typename F::Bits* bits) const {
    if (op_ != Op::kProd) {
      bits[0] = real_result<F>(op_, std::span(real_).first(ranks));
      bits[1] = real_result<F>(op_, std::span(imaginary_).first(ranks));
      return;
    }
    Complex product{};
    int turns = 0, exponent = 0;
    bool negative = false;
    for (size_t i = 0; i < ranks; ++i) {
      if (real_[i].mantissa > 1) {
        product = {real_[i], imaginary_[i]};
      } else {
        turns += product_turns(element_, static_cast<int>(i));
        negative = negative != real_[i].negative;
        exponent += real_[i].exponent;
      }
    }
    product = turned(product, turns + (negative ? 2 : 0));
    product.real.exponent += exponent;
    product.imaginary.exponent += exponent;
    bits[0] = F::encode(product.real);
    bits[1] = F::encode(product.imaginary);
  }

 private:
  Complex part(int rank) const {
    const Complex z{real_[static_cast<size_t>(rank)], imaginary_[static_cast<size_t>(rank)]};
    const bool power_of_two = op_ == Op::kProd && z.real.mantissa == 1;
    return power_of_two ? turned(z, product_turns(element_, rank)) : z;
  }

  Data data_;
  Op op_;
  uint64_t element_ = 0;
  std::vector<Number> real_, imaginary_;
};

template <class F>
void fill_pairs(const Data& data, int rank, uint64_t first, uint64_t count, void* out) {
  auto* bytes = static_cast<unsigned char*>(out);
  ComplexElement<F> element(data);
  for (uint64_t i = 0; i < count; ++i) {
    element.make(element_hash(data.seed, first + i));
    typename F::Bits bits[2];
    if (is_combined(rank)) {
      element.result(static_cast<size_t>(-rank), bits);
    } else {
      const Complex z = element.contribution(rank);
      bits[0] = F::encode(z.real);
      bits[1] = F::encode(z.imaginary);
    }
    std::memcpy(bytes + i * sizeof(bits), bits, sizeof(bits));
  }
}

template <class F>
void store_scalar(int rank, bool complex, void* out) {
  const Scalar& scalar = scalar_of(rank);
  const Complex z = turned({{scalar.negative, 1, scalar.exponent}, {}}, complex ? scalar.turns : 0);
  const typename F::Bits bits[2] = {F::encode(z.real), F::encode(z.imaginary)};
  std::memcpy(out, bits, complex ? sizeof(bits) : sizeof(bits[0]));
}

}  // namespace

void fill_floats(const Data& data, int rank, uint64_t first, uint64_t count, void* out) {
  switch (data.type.code) {
    case tbcclFloat16:
      return fill<Float16>(data, rank, first, count, out);
    case tbcclBfloat16:
      return fill<Bfloat16>(data, rank, first, count, out);
    case tbcclFloat32:
      return fill<Float32>(data, rank, first, count, out);
    case tbcclFloat64:
      return fill<Float64>(data, rank, first, count, out);
    case tbcclFloat8e4m3:
      return fill<Float8e4m3>(data, rank, first, count, out);
    case tbcclFloat8e5m2:
      return fill<Float8e5m2>(data, rank, first, count, out);
    default:
      return;
  }
}

void fill_complex(const Data& data, int rank, uint64_t first, uint64_t count, void* out) {
  if (data.type.code == tbcclComplex64) {
    fill_pairs<Float32>(data, rank, first, count, out);
  } else {
    fill_pairs<Float64>(data, rank, first, count, out);
  }
}

void fill_float_scalar(const Type& type, int rank, void* out) {
  switch (type.code) {
    case tbcclFloat16:
      return store_scalar<Float16>(rank, false, out);
    case tbcclBfloat16:
      return store_scalar<Bfloat16>(rank, false, out);
    case tbcclFloat32:
      return store_scalar<Float32>(rank, false, out);
    case tbcclFloat64:
      return store_scalar<Float64>(rank, false, out);
    case tbcclFloat8e4m3:
      return store_scalar<Float8e4m3>(rank, false, out);
    case tbcclFloat8e5m2:
      return store_scalar<Float8e5m2>(rank, false, out);
    case tbcclComplex64:
      return store_scalar<Float32>(rank, true, out);
    case tbcclComplex128:
      return store_scalar<Float64>(rank, true, out);
    default:
      return;
  }
}

}  // namespace tbccl::perf
