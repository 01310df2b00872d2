// Reduction kernels of every instruction set that this processor has, beside plain loops and what
// the memory gives, in a near cache and out of all caches. Bytes per second count one vector: those
// of b.
#include "reduce/reduce.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "plain_loops.h"

namespace {

using namespace tbccl;

constexpr int64_t kTiny = 8;
constexpr int64_t kNear = 256 << 10;
constexpr int64_t kFar = 256 << 20;

// Ordinary numbers in every format: small exponents, no denormals, no NaN.
std::vector<unsigned char> numbers(tbcclDataType_t type, size_t bytes) {
  const size_t width = reduce::size_of(type);
  std::vector<unsigned char> data(bytes);
  for (size_t i = 0; i < bytes / width && i < 7; ++i) {
    const float value = 1.0f + static_cast<float>(i) / 8.0f;
    const double wide = value;
    const uint16_t half = reduce::float_to_half(value), brain = reduce::float_to_bfloat16(value);
    const uint8_t e4m3 = reduce::float_to_e4m3(value), e5m2 = reduce::float_to_e5m2(value);
    const auto integer = static_cast<uint64_t>(i);
    const void* const from = type == tbcclFloat32 || type == tbcclComplex64
                                 ? static_cast<const void*>(&value)
                             : type == tbcclFloat64 || type == tbcclComplex128 ? &wide
                             : type == tbcclFloat16                            ? &half
                             : type == tbcclBfloat16                           ? &brain
                             : type == tbcclFloat8e4m3                         ? &e4m3
                             : type == tbcclFloat8e5m2                         ? &e5m2
                                                       : static_cast<const void*>(&integer);
    const size_t part = type == tbcclComplex64 || type == tbcclComplex128 ? width / 2 : width;
    for (size_t at = 0; at < width; at += part)
      std::memcpy(data.data() + i * width + at, from, part);
  }
  for (size_t i = 7 * width; i < bytes; ++i) data[i] = data[i - 7 * width];
  return data;
}

enum class Into { kA, kOther, kBoth, kThenCopy };  // the last: kOther, and memcpy to a second place

struct Case {
  std::string target;
  tbcclDataType_t type;
  tbcclRedOp_t op;
  int sources;
  Into into;
  size_t misalignment = 0;
};

void kernel(benchmark::State& state, const Case& c) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const std::vector<unsigned char> pattern = numbers(c.type, bytes + c.misalignment);
  std::vector<std::vector<unsigned char>> buffers(static_cast<size_t>(c.sources), pattern);
  std::vector<const void*> sources;
  for (auto& buffer : buffers) sources.push_back(buffer.data() + c.misalignment);
  std::vector<unsigned char> apart(c.into == Into::kA ? 0 : bytes + c.misalignment, 1);
  std::vector<unsigned char> also(c.into < Into::kBoth ? 0 : bytes + c.misalignment, 1);
  unsigned char* const dst =
      (c.into == Into::kA ? buffers[0].data() : apart.data()) + c.misalignment;
  void* const second = c.into == Into::kBoth ? also.data() + c.misalignment : nullptr;
  reduce::Reduction r;
  r.type = c.type;
  r.op = c.op;
  r.ranks = c.sources;
  const size_t count = bytes / reduce::size_of(c.type);
  reduce::use_target(c.target.c_str());
  for (auto _ : state) {
    if (c.sources == 2) {
      reduce::combine(r, dst, sources[0], sources[1], count, true, second);
    } else {
      reduce::fold(r, dst, sources.data(), c.sources, count, true, second);
    }
    if (c.into == Into::kThenCopy) std::memcpy(also.data() + c.misalignment, dst, bytes);
    benchmark::ClobberMemory();
  }
  reduce::use_target(nullptr);
  state.SetBytesProcessed(state.range(0) * state.iterations());
}

void plain_float(benchmark::State& state, bool in_place) {
  const auto count = static_cast<size_t>(state.range(0)) / sizeof(float);
  std::vector<float> a(count, 1.0f), sum(in_place ? 0 : count);
  const std::vector<float> b(count, 2.0f);
  for (auto _ : state) {
    if (in_place) {
      plain::add_floats(a.data(), b.data(), count);
    } else {
      plain::add_floats(sum.data(), a.data(), b.data(), count);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.range(0) * state.iterations());
}

void plain_bfloat16(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0)) / sizeof(uint16_t);
  std::vector<uint16_t> a(count, 0x3f80);
  const std::vector<uint16_t> b(count, 0x3f00);
  for (auto _ : state) {
    plain::add_bfloat16(a.data(), b.data(), count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.range(0) * state.iterations());
}

void memory_copy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const std::vector<unsigned char> a(bytes, 1);
  std::vector<unsigned char> b(bytes, 2);
  for (auto _ : state) {
    std::memcpy(b.data(), a.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.range(0) * state.iterations());
}

void memory_read(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const std::vector<unsigned char> a(bytes, 1);
  for (auto _ : state) benchmark::DoNotOptimize(plain::read(a.data(), bytes));
  state.SetBytesProcessed(state.range(0) * state.iterations());
}

void plain_float_in_place(benchmark::State& state) { plain_float(state, true); }
void plain_float_apart(benchmark::State& state) { plain_float(state, false); }

BENCHMARK(memory_copy)->Arg(kNear)->Arg(kFar);
BENCHMARK(memory_read)->Arg(kNear)->Arg(kFar);
BENCHMARK(plain_float_in_place)->Arg(kNear)->Arg(kFar);
BENCHMARK(plain_float_apart)->Arg(kNear)->Arg(kFar);
BENCHMARK(plain_bfloat16)->Arg(kNear)->Arg(kFar);

void add(const Case& c, const std::string& what, const std::vector<int64_t>& sizes) {
  const std::string name =
      c.target + "/" + what + "/" + reduce::name_of(c.type) + "/" + reduce::name_of(c.op);
  auto* const row = benchmark::RegisterBenchmark(name.c_str(), kernel, c);
  for (const int64_t size : sizes) row->Arg(size);
}

[[maybe_unused]] const bool registered = [] {
  const std::vector<int64_t> both = {kNear, kFar}, near = {kNear};
  for (const std::string target : reduce::targets()) {
    for (const tbcclDataType_t type : {tbcclFloat32, tbcclBfloat16, tbcclFloat16}) {
      add({target, type, tbcclSum, 2, Into::kA}, "in-place", both);
      add({target, type, tbcclSum, 2, Into::kOther}, "apart", both);
      add({target, type, tbcclSum, 2, Into::kOther, 16}, "apart-unaligned", near);
      add({target, type, tbcclSum, 2, Into::kBoth}, "two-places", both);
      add({target, type, tbcclSum, 2, Into::kThenCopy}, "then-copy", both);
      add({target, type, tbcclSum, 4, Into::kOther}, "fold4", both);
      add({target, type, tbcclMax, 2, Into::kA}, "in-place", near);
      add({target, type, tbcclAvg, 2, Into::kA}, "in-place", near);
    }
    for (int number = tbcclInt8; number <= tbcclComplex128; ++number) {
      const auto type = static_cast<tbcclDataType_t>(number);
      for (const tbcclRedOp_t op : {tbcclSum, tbcclProd, tbcclMin, tbcclAvg, tbcclLogicalAnd}) {
        if (!reduce::legal(type, op)) continue;
        add({target, type, op, 2, Into::kA}, "all", near);
        add({target, type, op, 4, Into::kOther}, "all-fold4", near);
      }
    }
    for (const tbcclDataType_t type : {tbcclFloat32, tbcclBfloat16, tbcclFloat8e4m3}) {
      add({target, type, tbcclSum, 2, Into::kA}, "in-place", {kTiny, 9 * kTiny});
    }
  }
  return true;
}();

}  // namespace
