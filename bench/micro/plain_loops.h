// What a user would write instead, compiled for the machine that it runs on (-march=native).
#pragma once

#include <cstddef>
#include <cstdint>

namespace plain {

void add_floats(float* a, const float* b, size_t count);                    // a[i] += b[i]
void add_floats(float* sum, const float* a, const float* b, size_t count);  // sum[i] = a[i] + b[i]
void add_bfloat16(uint16_t* a, const uint16_t* b, size_t count);  // rounded to nearest; no NaN
uint64_t read(const unsigned char* from, size_t bytes);  // touches every cache line's bytes

}  // namespace plain
