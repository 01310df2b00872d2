#include "types.h"

#include <array>

namespace tbccl::perf {
namespace {

constexpr std::array kTypes = {
    Type{"int8", tbcclInt8, 1, Family::kInteger},
    Type{"uint8", tbcclUint8, 1, Family::kInteger},
    Type{"int32", tbcclInt32, 4, Family::kInteger},
    Type{"uint32", tbcclUint32, 4, Family::kInteger},
    Type{"int64", tbcclInt64, 8, Family::kInteger},
    Type{"uint64", tbcclUint64, 8, Family::kInteger},
    Type{"half", tbcclFloat16, 2, Family::kFloat},
    Type{"float", tbcclFloat32, 4, Family::kFloat},
    Type{"double", tbcclFloat64, 8, Family::kFloat},
    Type{"bfloat16", tbcclBfloat16, 2, Family::kFloat},
    Type{"f8e4m3", tbcclFloat8e4m3, 1, Family::kFloat},
    Type{"f8e5m2", tbcclFloat8e5m2, 1, Family::kFloat},
    Type{"int16", tbcclInt16, 2, Family::kInteger},
    Type{"uint16", tbcclUint16, 2, Family::kInteger},
    Type{"bool", tbcclBool, 1, Family::kBool},
    Type{"complex64", tbcclComplex64, 8, Family::kComplex},
    Type{"complex128", tbcclComplex128, 16, Family::kComplex},
};

constexpr std::array kOperators = {
    Operator{"sum", Op::kSum, tbcclSum},
    Operator{"prod", Op::kProd, tbcclProd},
    Operator{"max", Op::kMax, tbcclMax},
    Operator{"min", Op::kMin, tbcclMin},
    Operator{"avg", Op::kAvg, tbcclAvg},
    Operator{"mulsum", Op::kMulSum, tbcclRedOpDynamic},
    Operator{"band", Op::kBitAnd, tbcclBitAnd},
    Operator{"bor", Op::kBitOr, tbcclBitOr},
    Operator{"bxor", Op::kBitXor, tbcclBitXor},
    Operator{"land", Op::kLogicalAnd, tbcclLogicalAnd},
    Operator{"lor", Op::kLogicalOr, tbcclLogicalOr},
    Operator{"lxor", Op::kLogicalXor, tbcclLogicalXor},
};

}  // namespace

std::span<const Type> all_types() { return kTypes; }
std::span<const Operator> all_operators() { return kOperators; }

const Type* find_type(std::string_view name) {
  for (const Type& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

const Operator* find_operator(std::string_view name) {
  for (const Operator& entry : kOperators) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

bool is_legal(const Type& type, Op op) {
  switch (type.family) {
    case Family::kInteger:
      return true;
    case Family::kFloat:
      return op <= Op::kMulSum;
    case Family::kComplex:
      return op == Op::kSum || op == Op::kProd || op == Op::kAvg || op == Op::kMulSum;
    case Family::kBool:
      return op == Op::kMax || op == Op::kMin || op >= Op::kBitAnd;
  }
  return false;
}

}  // namespace tbccl::perf
