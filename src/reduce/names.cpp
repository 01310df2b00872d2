// Names and sizes. Names are nccl-tests' where it has them.
#include "reduce/reduce.h"

namespace tbccl::reduce {

uint32_t size_of(tbcclDataType_t type) {
  switch (type) {
    case tbcclInt8:
    case tbcclUint8:
    case tbcclFloat8e4m3:
    case tbcclFloat8e5m2:
    case tbcclBool:
      return 1;
    case tbcclInt16:
    case tbcclUint16:
    case tbcclFloat16:
    case tbcclBfloat16:
      return 2;
    case tbcclInt32:
    case tbcclUint32:
    case tbcclFloat32:
      return 4;
    case tbcclInt64:
    case tbcclUint64:
    case tbcclFloat64:
    case tbcclComplex64:
      return 8;
    case tbcclComplex128:
      return 16;
  }
  return 0;
}

const char* name_of(tbcclDataType_t type) {
  switch (type) {
    case tbcclInt8:
      return "int8";
    case tbcclUint8:
      return "uint8";
    case tbcclInt32:
      return "int32";
    case tbcclUint32:
      return "uint32";
    case tbcclInt64:
      return "int64";
    case tbcclUint64:
      return "uint64";
    case tbcclFloat16:
      return "half";
    case tbcclFloat32:
      return "float";
    case tbcclFloat64:
      return "double";
    case tbcclBfloat16:
      return "bfloat16";
    case tbcclFloat8e4m3:
      return "f8e4m3";
    case tbcclFloat8e5m2:
      return "f8e5m2";
    case tbcclInt16:
      return "int16";
    case tbcclUint16:
      return "uint16";
    case tbcclBool:
      return "bool";
    case tbcclComplex64:
      return "complex64";
    case tbcclComplex128:
      return "complex128";
  }
  return "unknown type";
}

const char* name_of(tbcclRedOp_t op) {
  switch (op) {
    case tbcclSum:
      return "sum";
    case tbcclProd:
      return "prod";
    case tbcclMax:
      return "max";
    case tbcclMin:
      return "min";
    case tbcclAvg:
      return "avg";
    case tbcclBitAnd:
      return "band";
    case tbcclBitOr:
      return "bor";
    case tbcclBitXor:
      return "bxor";
    case tbcclLogicalAnd:
      return "land";
    case tbcclLogicalOr:
      return "lor";
    case tbcclLogicalXor:
      return "lxor";
    default:
      return op >= tbcclRedOpDynamic ? "user" : "unknown operator";
  }
}

}  // namespace tbccl::reduce
