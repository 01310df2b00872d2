// How a processor treats floating-point numbers is a property of a thread, and a kernel runs on
// whichever thread gets to it: the caller's, where a program may have asked for denormals to be
// flushed or for another rounding, or a worker's. Results must not depend on that.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tbccl::reduce {

// While it lives: denormals are numbers, and rounding is to nearest. Costs a register read where
// that is so anyway.
class StandardFloats {
 public:
  StandardFloats() : before_(read()) {
    if ((before_ & kDeviations) != 0) write(before_ & ~kDeviations);
  }
  ~StandardFloats() {
    if ((before_ & kDeviations) != 0) write(before_);
  }
  StandardFloats(const StandardFloats&) = delete;
  StandardFloats& operator=(const StandardFloats&) = delete;

 private:
#if defined(__x86_64__)
  using Register = uint32_t;  // MXCSR: flush to zero, rounding (two bits), denormals are zero
  static constexpr Register kDeviations = 0x8000 | 0x6000 | 0x0040;
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  // FPCR: alternative half precision, flush to zero, rounding (two bits), flush halves to zero.
  using Register = uint64_t;
  static constexpr Register kDeviations = 1u << 26 | 1u << 24 | 3u << 22 | 1u << 19;
  static Register read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
  using Register = uint32_t;
  static constexpr Register kDeviations = 0;
  static Register read() { return 0; }
  static void write(Register) {}
#endif

  Register before_;
};

}  // namespace tbccl::reduce
