// Reduction kernels: every legal (type, operator) pair. Pure functions of their arguments: the
// same bits on every rank, run and instruction set (no contraction; NaN results are canonical).
//
// float16, bfloat16 and float8 are widened to float32 within one call and rounded once at its end
// (nearest, ties to even). An average divides, before that last rounding, only where `finish` is
// set. Buffers may be equal, but not overlap otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tbccl/tbccl.h"

namespace tbccl::reduce {

uint32_t size_of(tbcclDataType_t type);  // bytes of an element, 0: no such type
const char* name_of(tbcclDataType_t type);
const char* name_of(tbcclRedOp_t op);               // "sum", ...; dynamic operators: "user"
bool legal(tbcclDataType_t type, tbcclRedOp_t op);  // built-in operators

// One operator on one type. Plain data, copied into requests.
struct Reduction {
  tbcclDataType_t type = tbcclFloat32;
  tbcclRedOp_t op = tbcclSum;  // kernels see pre-multiplied sum as tbcclSum plus scale()
  int32_t ranks = 1;           // divisor of an average
  bool scaled = false;         // pre-multiplied sum
  alignas(16) unsigned char scalar[16] = {};  // its scalar, an element of `type`
  tbcclReduceFn user = nullptr;               // set: a user function; `op` is ignored
  void* context = nullptr;
  bool commutative = true;
};

// dst[i] = a[i] (op) b[i]; dst may be a or b. Where `also` is not NULL the results are written
// there too (the next hop's buffer), while they are in the cache; it overlaps nothing.
void combine(const Reduction& r, void* dst, const void* a, const void* b, size_t count, bool finish,
             void* also = nullptr);

// dst[i] = s[0][i] (op) ... (op) s[k-1][i], left to right, rounded once; dst may be any of s; k >=
// 1; `also` as above.
void fold(const Reduction& r, void* dst, const void* const* sources, int k, size_t count,
          bool finish, void* also = nullptr);

// dst[i] = scalar * src[i], rounded.
void scale(const Reduction& r, void* dst, const void* src, size_t count);

// dst[i] = src[i], finished: an average is divided; of a single rank's contribution also what a
// combination would have made of it. Plain memory copy otherwise, and nothing where dst is src.
void copy(const Reduction& r, void* dst, const void* src, size_t count);

// The instruction sets that this processor has kernels for, best first ("AVX-512", "AVX2", "plain";
// "NEON"). The first is used, unless a test or a benchmark chooses: use_target is not for programs,
// which have nothing to gain. NULL: the best again. False: no such target, nothing has changed.
std::vector<const char*> targets();
bool use_target(const char* name);

// Exact conversions, for tests, verification and printing.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);
float e4m3_to_float(uint8_t bits);
uint8_t float_to_e4m3(
    float value);  // overflow and infinity become NaN (OCP e4m3fn without saturation)
float e5m2_to_float(uint8_t bits);
uint8_t float_to_e5m2(float value);

}  // namespace tbccl::reduce
