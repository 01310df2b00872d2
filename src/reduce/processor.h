// What this processor, and the system on it, can do; false on other architectures.
#pragma once

namespace tbccl::reduce {

bool has_avx2();    // and what came with it: FMA, BMI, F16C
bool has_avx512();  // and its F, CD, BW, DQ and VL parts

}  // namespace tbccl::reduce
