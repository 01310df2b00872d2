// The element types and operators that tbccl-perf knows, by the names nccl-tests gives them, and
// which pairs are legal.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tbccl/tbccl.h"

namespace tbccl::perf {

enum class Family { kInteger, kFloat, kComplex, kBool };

struct Type {
  const char* name;
  tbcclDataType_t code;
  size_t bytes;
  Family family;
};

// Pre-multiplied sum has no code of its own: it is made per communicator, type and rank.
enum class Op {
  kSum,
  kProd,
  kMax,
  kMin,
  kAvg,
  kMulSum,
  kBitAnd,
  kBitOr,
  kBitXor,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor
};

struct Operator {
  const char* name;
  Op op;
  tbcclRedOp_t code;  // meaningless for kMulSum
};

std::span<const Type> all_types();
std::span<const Operator> all_operators();
const Type* find_type(std::string_view name);
const Operator* find_operator(std::string_view name);

// The pairs that tbccl.h promises.
bool is_legal(const Type& type, Op op);

}  // namespace tbccl::perf
