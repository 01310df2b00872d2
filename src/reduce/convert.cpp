// The conversions of reduce.h.
#include "reduce/reduce.h"
#include "reduce/small_float.h"

namespace tbccl::reduce {

float half_to_float(uint16_t bits) { return Float16::widen(bits); }
uint16_t float_to_half(float value) { return Float16::narrow(value); }
float bfloat16_to_float(uint16_t bits) { return Bfloat16::widen(bits); }
uint16_t float_to_bfloat16(float value) { return Bfloat16::narrow(value); }
float e4m3_to_float(uint8_t bits) { return Float8e4m3::widen(bits); }
uint8_t float_to_e4m3(float value) { return Float8e4m3::narrow(value); }
float e5m2_to_float(uint8_t bits) { return Float8e5m2::widen(bits); }
uint8_t float_to_e5m2(float value) { return Float8e5m2::narrow(value); }

}  // namespace tbccl::reduce
