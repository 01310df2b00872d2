// Functions of the user's: operand order, aliasing, alignment.
#include <cstring>
#include <numeric>
#include <vector>

#include "reduce/reduce.h"
#include "unit/catch.h"

namespace {

using namespace tbccl;

struct Seen {
  bool aligned = true;
  bool type_right = true;
  size_t elements = 0;
};

// Composition of affine maps x -> m x + c over integers modulo 2^32, m in the upper half:
// associative, and it does not commute.
uint64_t compose(uint64_t lower, uint64_t upper) {
  const auto m1 = static_cast<uint32_t>(lower >> 32), c1 = static_cast<uint32_t>(lower);
  const auto m2 = static_cast<uint32_t>(upper >> 32), c2 = static_cast<uint32_t>(upper);
  return static_cast<uint64_t>(m1 * m2) << 32 | static_cast<uint32_t>(m2 * c1 + c2);
}

void affine(const void* in, void* inout, size_t count, tbcclDataType_t type, void* context) {
  auto* seen = static_cast<Seen*>(context);
  seen->aligned = seen->aligned && reinterpret_cast<uintptr_t>(in) % 8 == 0 &&
                  reinterpret_cast<uintptr_t>(inout) % 8 == 0;
  seen->type_right = seen->type_right && type == tbcclUint64;
  seen->elements += count;
  for (size_t i = 0; i < count; ++i) {
    uint64_t a, b;
    std::memcpy(&a, static_cast<const char*>(in) + 8 * i, 8);
    std::memcpy(&b, static_cast<char*>(inout) + 8 * i, 8);
    b = compose(a, b);
    std::memcpy(static_cast<char*>(inout) + 8 * i, &b, 8);
  }
}

std::vector<uint64_t> values(size_t count, uint64_t seed) {
  std::vector<uint64_t> v(count);
  for (uint64_t& x : v) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x = seed;
  }
  return v;
}

std::vector<unsigned char> raw(const std::vector<uint64_t>& v, size_t misalignment) {
  std::vector<unsigned char> bytes(misalignment + 8 * v.size() + 1);
  if (!v.empty()) std::memcpy(bytes.data() + misalignment, v.data(), 8 * v.size());
  return bytes;
}

reduce::Reduction reduction(Seen& seen) {
  reduce::Reduction r;
  r.type = tbcclUint64;
  r.user = affine;
  r.context = &seen;
  r.commutative = false;
  return r;
}

}  // namespace

TEST_CASE("user function: combine keeps the operands' order whatever the destination") {
  const size_t count = GENERATE(0, 1, 511, 512, 513, 2000);
  const size_t off = GENERATE(0, 1, 4);
  const auto a = values(count, 1), b = values(count, 2);
  std::vector<uint64_t> expected(count), squared(count);
  for (size_t i = 0; i < count; ++i) {
    expected[i] = compose(a[i], b[i]);
    squared[i] = compose(a[i], a[i]);
  }
  for (int alias = 0; alias < 4; ++alias) {
    Seen seen;
    const reduce::Reduction r = reduction(seen);
    auto ra = raw(a, off), rb = raw(b, off), rc = raw(a, off);
    auto& dst = alias == 0 ? rc : alias == 2 ? rb : ra;
    auto& second = alias == 3 ? ra : rb;
    reduce::combine(r, dst.data() + off, ra.data() + off, second.data() + off, count, true);
    const auto& want = alias == 3 ? squared : expected;
    REQUIRE((count == 0 || std::memcmp(dst.data() + off, want.data(), 8 * count) == 0));
    REQUIRE(seen.aligned);
    REQUIRE(seen.type_right);
    REQUIRE(seen.elements == count);
  }
}

TEST_CASE("user function: fold goes from left to right") {
  const int k = GENERATE(1, 2, 3, 5, 9);
  const size_t count = GENERATE(0, 1, 512, 1300);
  std::vector<std::vector<uint64_t>> sources;
  for (int j = 0; j < k; ++j) sources.push_back(values(count, uint64_t(j) + 3));
  auto expected = sources[0];
  for (int j = 1; j < k; ++j) {
    for (size_t i = 0; i < count; ++i) expected[i] = compose(expected[i], sources[size_t(j)][i]);
  }
  for (int into = -1; into < k; ++into) {
    Seen seen;
    const reduce::Reduction r = reduction(seen);
    auto copies = sources;
    std::vector<const void*> pointers;
    for (auto& s : copies) pointers.push_back(s.data());
    std::vector<uint64_t> own(count);
    auto& dst = into < 0 ? own : copies[size_t(into)];
    reduce::fold(r, dst.data(), pointers.data(), k, count, true);
    REQUIRE(dst == expected);
    REQUIRE(seen.aligned);
    REQUIRE(seen.elements == count * size_t(k - 1));
  }
}

TEST_CASE("user function: copy of a single rank leaves the bytes alone") {
  Seen seen;
  const reduce::Reduction r = reduction(seen);
  const auto a = values(100, 4);
  std::vector<uint64_t> b(100);
  reduce::copy(r, b.data(), a.data(), 100);
  REQUIRE(a == b);
  REQUIRE(seen.elements == 0);
}
