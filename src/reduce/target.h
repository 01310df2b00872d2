// One source, several instruction sets. A file that begins with
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "reduce/<this file>"
//   #include "reduce/target.h"
//
// is compiled once for each of them; what stands between HWY_BEFORE_NAMESPACE and
// HWY_AFTER_NAMESPACE, in the namespace HWY_NAMESPACE, is a different function each time, and what
// stands under HWY_ONCE comes once, at the end. Highway's headers do this; none of its library is
// called, so who uses tbccl need not have it. Without Highway there is one instruction set, the one
// that the compiler was told.
//
// Included again for every instruction set: no guard around the whole.
#if TBCCL_HAVE_HIGHWAY

// Wanted are what the compiler was told, AVX2, AVX-512 and NEON. Not wanted are those that
// Highway puts before AVX-512 (bits 0 to 7: newer processors, nothing that these kernels could
// use), SSSE3 and SSE4 (bits 11 to 14: the plain loops for SSE2 are as good), and scalable vectors.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (0x78ff | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
// clang-format off
#include "hwy/foreach_target.h"  // first: includes the file itself
#include "hwy/highway.h"
// clang-format on

// Whether this instruction set has vectors that Highway knows, or plain loops alone.
#undef TBCCL_VECTORS
#define TBCCL_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

#else

#undef TBCCL_VECTORS
#define TBCCL_VECTORS 0
#undef HWY_NAMESPACE
#define HWY_NAMESPACE N_PLAIN
#undef HWY_ONCE
#define HWY_ONCE 1
#undef HWY_BEFORE_NAMESPACE
#define HWY_BEFORE_NAMESPACE() static_assert(true, "")
#undef HWY_AFTER_NAMESPACE
#define HWY_AFTER_NAMESPACE() static_assert(true, "")

#endif

#ifndef TBCCL_REDUCE_TARGET_H
#define TBCCL_REDUCE_TARGET_H

// TBCCL_FOR_TARGETS(name): name's variants, in the order of the enumeration Target of kernel.h, as
// the elements of an array. For use under HWY_ONCE.
#if TBCCL_HAVE_HIGHWAY && (HWY_TARGETS & HWY_AVX2) && HWY_STATIC_TARGET != HWY_AVX2
#define TBCCL_FOR_AVX2(name) , &N_AVX2::name
#else
#define TBCCL_FOR_AVX2(name) , nullptr
#endif
#if TBCCL_HAVE_HIGHWAY && (HWY_TARGETS & HWY_AVX3) && HWY_STATIC_TARGET != HWY_AVX3
#define TBCCL_FOR_AVX512(name) , &N_AVX3::name
#else
#define TBCCL_FOR_AVX512(name) , nullptr
#endif
#define TBCCL_FOR_TARGETS(name) \
  { &HWY_NAMESPACE::name TBCCL_FOR_AVX2(name) TBCCL_FOR_AVX512(name) }

#endif
