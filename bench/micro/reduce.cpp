// Reduction kernels beside plain loops and memcpy, in the first-level cache and out of all caches.
#include "reduce/reduce.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace tbccl;

constexpr int64_t kSmall = 8 << 10;
constexpr int64_t kLarge = 16 << 20;

// Ordinary numbers in every format: small exponents, no denormals, no NaN.
std::vector<unsigned char> numbers(tbcclDataType_t type, size_t bytes) {
  std::vector<unsigned char> data(bytes);
  const size_t width = reduce::size_of(type);
  for (size_t i = 0; i < bytes / width; ++i) {
    const float value = 1.0f + static_cast<float>(i % 7) / 8.0f;
    const uint16_t half = reduce::float_to_half(value);
    const uint16_t brain = reduce::float_to_bfloat16(value);
    const uint8_t eight = type == tbcclFloat8e4m3   ? reduce::float_to_e4m3(value)
                          : type == tbcclFloat8e5m2 ? reduce::float_to_e5m2(value)
                                                    : static_cast<uint8_t>(i);
    const void* from = type == tbcclFloat32   ? static_cast<const void*>(&value)
                       : type == tbcclFloat16 ? static_cast<const void*>(&half)
                       : width == 2           ? static_cast<const void*>(&brain)
                                              : static_cast<const void*>(&eight);
    std::memcpy(data.data() + i * width, from, width);
  }
  return data;
}

reduce::Reduction reduction(tbcclDataType_t type, tbcclRedOp_t op) {
  reduce::Reduction r;
  r.type = type;
  r.op = op;
  r.ranks = 4;
  return r;
}

void combine(benchmark::State& state, tbcclDataType_t type, tbcclRedOp_t op, bool in_place) {
  const auto bytes = static_cast<size_t>(state.range(0));
  auto a = numbers(type, bytes);
  const auto b = numbers(type, bytes);
  std::vector<unsigned char> own(in_place ? 0 : bytes);
  void* dst = in_place ? a.data() : own.data();
  const reduce::Reduction r = reduction(type, op);
  for (auto _ : state) {
    reduce::combine(r, dst, a.data(), b.data(), bytes / reduce::size_of(type), true);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(2 * state.range(0) * state.iterations());
}

void fold(benchmark::State& state, tbcclDataType_t type) {
  constexpr int kSources = 4;
  const auto bytes = static_cast<size_t>(state.range(0));
  const std::vector<std::vector<unsigned char>> sources(kSources, numbers(type, bytes));
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  std::vector<unsigned char> dst(bytes);
  const reduce::Reduction r = reduction(type, tbcclSum);
  for (auto _ : state) {
    reduce::fold(r, dst.data(), pointers.data(), kSources, bytes / reduce::size_of(type), true);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(kSources * state.range(0) * state.iterations());
}

void plain_float_loop(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0)) / sizeof(float);
  std::vector<float> a(count, 1.0f);
  const std::vector<float> b(count, 2.0f);
  float* x = a.data();
  const float* y = b.data();
  for (auto _ : state) {
    for (size_t i = 0; i < count; ++i) x[i] += y[i];
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(2 * state.range(0) * state.iterations());
}

void memory_copy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const std::vector<unsigned char> a(bytes, 1);
  std::vector<unsigned char> b(bytes);
  for (auto _ : state) {
    std::memcpy(b.data(), a.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.range(0) * state.iterations());
}

BENCHMARK(memory_copy)->Arg(kSmall)->Arg(kLarge);
BENCHMARK(plain_float_loop)->Arg(kSmall)->Arg(kLarge);

[[maybe_unused]] const bool registered = [] {
  for (const tbcclDataType_t type :
       {tbcclFloat32, tbcclBfloat16, tbcclFloat16, tbcclInt8, tbcclFloat8e4m3, tbcclFloat8e5m2}) {
    const std::string name = reduce::name_of(type);
    for (const tbcclRedOp_t op : {tbcclSum, tbcclMax, tbcclAvg}) {
      for (const bool in_place : {true, false}) {
        benchmark::RegisterBenchmark(
            ("combine/" + name + "/" + reduce::name_of(op) + (in_place ? "/in-place" : "/apart"))
                .c_str(),
            combine, type, op, in_place)
            ->Arg(kSmall)
            ->Arg(kLarge);
      }
    }
    benchmark::RegisterBenchmark(("fold4/" + name + "/sum").c_str(), fold, type)
        ->Arg(kSmall)
        ->Arg(kLarge);
  }
  return true;
}();

}  // namespace
