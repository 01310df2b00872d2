// The same bits on every instruction set: long and short vectors at every alignment, every value of
// the small formats, results in two places, and threads with floating-point modes of their own.
#include <cfenv>
#include <cstring>
#include <set>
#include <string>

#include "reduce/reduce.h"
#include "unit/catch.h"
#include "unit/reduce/buffers.h"
#include "unit/reduce/reference.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

using namespace tbccl;
using namespace buffers;

std::vector<size_t> awkward_counts() {
  std::vector<size_t> counts;
  for (size_t count = 0; count <= 70; ++count) counts.push_back(count);
  for (const size_t count : {127, 128, 129, 255, 256, 257, 4099}) counts.push_back(count);
  return counts;
}

// A fold of k sources into a buffer of its own (into < 0) or one of theirs, and perhaps into a
// second place; every buffer at another alignment. Whether everything is as expected.
bool fold_is_right(const reduce::Reduction& r, const std::vector<std::vector<unsigned char>>& all,
                   const std::vector<unsigned char>& expected, size_t count, int into, bool also) {
  const size_t bytes = count * reduce::size_of(r.type);
  const auto k = static_cast<int>(all.size());
  std::vector<Buffer> buffers;
  for (int j = 0; j < k; ++j) {
    const auto& source = all[size_t(j)];
    buffers.emplace_back(
        std::vector<unsigned char>(source.begin(), source.begin() + ptrdiff_t(bytes)),
        (count * 5 + size_t(j) * 11) % 64);
  }
  const std::vector<unsigned char> blank(bytes, 0);
  Buffer own(blank, (count * 3 + 1) % 64), second(blank, (count * 7 + 2) % 64);
  std::vector<const void*> pointers;
  for (Buffer& buffer : buffers) pointers.push_back(buffer.data());
  Buffer& dst = into < 0 ? own : buffers[size_t(into)];
  void* const other = also ? second.data() : nullptr;
  if (k == 2) {
    reduce::combine(r, dst.data(), pointers[0], pointers[1], count, true, other);
  } else {
    reduce::fold(r, dst.data(), pointers.data(), k, count, true, other);
  }
  bool right = dst.equals(expected.data(), bytes) && own.guarded() && second.guarded();
  right = right && second.equals(also ? expected.data() : blank.data(), bytes);
  for (int j = 0; j < k; ++j) {
    Buffer& source = buffers[size_t(j)];
    right = right && source.guarded() && (j == into || source.equals(all[size_t(j)].data(), bytes));
  }
  return right;
}

// Every pattern of `type` with itself and with `partners`, as two vectors.
std::vector<std::vector<Element>> every_pattern_with(tbcclDataType_t type,
                                                     const std::vector<Element>& partners) {
  const size_t width = reduce::size_of(type);
  std::vector<std::vector<Element>> sources(2);
  for (uint32_t bits = 0; bits < 1u << (8 * width); ++bits) {
    Element element(width);
    std::memcpy(element.data(), &bits, width);  // little-endian, as all machines here are
    for (const Element& partner : partners) {
      sources[0].push_back(bits % 2 == 0 ? element : partner);
      sources[1].push_back(bits % 2 == 0 ? partner : element);
    }
  }
  return sources;
}

void require_on_all_targets(const reduce::Reduction& r,
                            const std::vector<std::vector<Element>>& sources) {
  const std::vector<unsigned char> expected = expected_fold(r, sources, true);
  Buffer a(sources[0], 0), b(sources[1], 0);
  for (const char* const target : reduce::targets()) {
    const OnTarget on(target);
    INFO(reduce::name_of(r.type) << " " << reduce::name_of(r.op) << " on " << target);
    Buffer dst(std::vector<unsigned char>(expected.size(), 0), 0);
    reduce::combine(r, dst.data(), a.data(), b.data(), sources[0].size(), true);
    REQUIRE(dst.equals(expected.data(), expected.size()));
  }
}

}  // namespace

TEST_CASE("instruction sets have names, and one can be chosen by its name") {
  const std::vector<const char*> names = reduce::targets();
  REQUIRE_FALSE(names.empty());
  std::set<std::string> distinct;
  for (const char* const name : names) {
    distinct.insert(name);
    REQUIRE(reduce::use_target(name));
  }
  REQUIRE(distinct.size() == names.size());
  REQUIRE_FALSE(reduce::use_target("no such target"));
  REQUIRE_FALSE(reduce::use_target(""));
  REQUIRE(reduce::use_target(nullptr));
}

TEST_CASE("1 to 5 sources: counts, alignment, any destination, a second place") {
  const std::vector<size_t> counts = awkward_counts();
  for (int k = 1; k <= 5; ++k) {
    for (const tbcclDataType_t type : reference::kTypes) {
      std::vector<std::vector<Element>> sources;
      std::vector<std::vector<unsigned char>> flat;
      for (int j = 0; j < k; ++j) {
        sources.push_back(mixture(type, counts.back(), uint32_t(100 * k + j)));
        flat.push_back(Buffer::flatten(sources.back()));
      }
      for (const tbcclRedOp_t op : reference::kOps) {
        if (!reference::legal(type, op)) continue;
        reduce::Reduction r;
        r.type = type;
        r.op = op;
        r.ranks = k == 1 ? 7 : k;
        const std::vector<unsigned char> expected = expected_fold(r, sources, true);
        for (const char* const target : reduce::targets()) {
          const OnTarget on(target);
          INFO(reduce::name_of(type)
               << " " << reduce::name_of(op) << " on " << target << ", " << k);
          size_t wrong = 0;
          for (const size_t count : counts) {
            const int into = static_cast<int>(count % size_t(k + 1)) - 1;
            wrong += fold_is_right(r, flat, expected, count, into, count % 2 == 0) ? 0 : 1;
            if (count > 70) wrong += fold_is_right(r, flat, expected, count, k - 1, true) ? 0 : 1;
          }
          REQUIRE(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("float8: every value with every other") {
  for (const tbcclDataType_t type : {tbcclFloat8e4m3, tbcclFloat8e5m2}) {
    const auto sources = every_pattern_with(type, reference::awkward(type));
    for (const tbcclRedOp_t op : {tbcclSum, tbcclProd, tbcclMax, tbcclMin, tbcclAvg}) {
      reduce::Reduction r;
      r.type = type;
      r.op = op;
      r.ranks = 3;
      require_on_all_targets(r, sources);
    }
  }
}

TEST_CASE("float16 and bfloat16: every value with those that go wrong first") {
  // Of both formats: zeros, denormals, ones, numbers that round, the largest, infinities, NaNs.
  std::vector<Element> partners;
  for (const uint16_t bits : {0x0000, 0x8001, 0x03ff, 0x0400, 0x3c01, 0x3f81, 0xbf80, 0x7bff,
                              0x7c00, 0xff80, 0x7c01, 0xffc1, 0x7f81}) {
    Element element(2);
    std::memcpy(element.data(), &bits, 2);
    partners.push_back(element);
  }
  for (const tbcclDataType_t type : {tbcclFloat16, tbcclBfloat16}) {
    const auto sources = every_pattern_with(type, partners);
    for (const tbcclRedOp_t op : {tbcclSum, tbcclProd, tbcclMax, tbcclMin, tbcclAvg}) {
      reduce::Reduction r;
      r.type = type;
      r.op = op;
      r.ranks = 3;
      require_on_all_targets(r, sources);
    }
  }
}

namespace {

// Averages of values with zero, which are divisions alone, against the processor's.
template <class T>
void check_division(tbcclDataType_t type, const std::vector<T>& values) {
  const std::vector<T> zeros(values.size(), 0);
  for (const int32_t divisor : {2, 3, 5, 7, 10, 127, 128, 255, 256, 257, 4095, 32767, 32768, 65535,
                                65536, 99991, 16777215, 16777217, 2147483647}) {
    reduce::Reduction r;
    r.type = type;
    r.op = tbcclAvg;
    r.ranks = divisor;
    std::vector<T> expected;
    for (const T value : values) {
      expected.push_back(static_cast<T>(static_cast<int64_t>(value) / divisor));
    }
    for (const char* const target : reduce::targets()) {
      const OnTarget on(target);
      INFO(reduce::name_of(type) << " by " << divisor << " on " << target);
      std::vector<T> results(values.size());
      reduce::combine(r, results.data(), values.data(), zeros.data(), values.size(), true);
      REQUIRE((results == expected));
    }
  }
}

// Everything that 8 or 16 bits hold.
template <class T>
std::vector<T> all_of() {
  std::vector<T> values;
  for (int64_t v = std::numeric_limits<T>::min(); v <= std::numeric_limits<T>::max(); ++v) {
    values.push_back(static_cast<T>(v));
  }
  return values;
}

// Around the multiples of divisors, and at random.
template <class T>
std::vector<T> many_of() {
  std::vector<T> values = {0, 1, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  std::mt19937 random(17);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    for (const uint32_t base : {3u, 7u, 257u, 65535u, 99991u, 16777217u}) {
      for (const uint32_t step : {0u, 1u, UINT32_MAX}) {
        values.push_back(static_cast<T>(bits / base * base + step));
      }
    }
    values.push_back(static_cast<T>(bits));
  }
  return values;
}

}  // namespace

TEST_CASE("averages of integers are truncated quotients") {
  check_division<int8_t>(tbcclInt8, all_of<int8_t>());
  check_division<uint8_t>(tbcclUint8, all_of<uint8_t>());
  check_division<int16_t>(tbcclInt16, all_of<int16_t>());
  check_division<uint16_t>(tbcclUint16, all_of<uint16_t>());
  check_division<int32_t>(tbcclInt32, many_of<int32_t>());
  check_division<uint32_t>(tbcclUint32, many_of<uint32_t>());
}

TEST_CASE("results do not depend on the rounding and denormals that a thread has asked for") {
  for_each_pair([](const reduce::Reduction& r) {
    const std::vector<std::vector<Element>> sources = {mixture(r.type, 200, 31),
                                                       mixture(r.type, 200, 32)};
    const std::vector<unsigned char> expected = expected_fold(r, sources, true);
    Buffer a(sources[0], 0), b(sources[1], 0);
    Buffer dst(std::vector<unsigned char>(expected.size(), 0), 0);
    const int rounding = std::fegetround();
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    constexpr unsigned kFlush = 0x8040;  // results and operands
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | kFlush);
#endif
    reduce::combine(r, dst.data(), a.data(), b.data(), 200, true);
    const bool kept = std::fegetround() == FE_UPWARD;
#if defined(__x86_64__)
    const bool still_flushes = (_mm_getcsr() & kFlush) == kFlush;
    _mm_setcsr(before);
    REQUIRE(still_flushes);
#endif
    std::fesetround(rounding);
    REQUIRE(kept);
    REQUIRE(dst.equals(expected.data(), expected.size()));
  });
}
