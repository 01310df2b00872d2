// Every legal pair against the reference, byte for byte: awkward values, counts, aliasing,
// alignment, and nothing written outside the result; on every instruction set that this processor
// has.
#include <cstring>

#include "reduce/reduce.h"
#include "unit/catch.h"
#include "unit/reduce/buffers.h"
#include "unit/reduce/reference.h"

namespace {

using namespace tbccl;
using namespace buffers;
using reference::Element;

}  // namespace

TEST_CASE("names, sizes and legal pairs") {
  for (const tbcclDataType_t type : reference::kTypes) {
    REQUIRE(reduce::size_of(type) == reference::bytes(type));
    REQUIRE(std::string(reduce::name_of(type)) != "unknown type");
    for (const tbcclRedOp_t op : reference::kOps) {
      INFO(reduce::name_of(type) << " " << reduce::name_of(op));
      REQUIRE(reduce::legal(type, op) == reference::legal(type, op));
    }
    REQUIRE_FALSE(reduce::legal(type, static_cast<tbcclRedOp_t>(5)));
    REQUIRE_FALSE(reduce::legal(type, tbcclRedOpDynamic));
  }
  for (const int number : {12, 15, 21, 31}) {
    const auto type = static_cast<tbcclDataType_t>(number);
    REQUIRE(reduce::size_of(type) == 0);
    REQUIRE_FALSE(reduce::legal(type, tbcclSum));
  }
  REQUIRE(std::string(reduce::name_of(tbcclRedOpDynamic)) == "user");
  REQUIRE(std::string(reduce::name_of(static_cast<tbcclRedOp_t>(99))) == "unknown operator");
}

TEST_CASE("combine: all pairs of awkward values") {
  for_each_pair([](const reduce::Reduction& r) {
    const std::vector<Element> values = reference::awkward(r.type);
    std::vector<std::vector<Element>> sources(2);
    for (const Element& a : values) {
      for (const Element& b : values) {
        sources[0].push_back(a);
        sources[1].push_back(b);
      }
    }
    const size_t count = sources[0].size();
    Buffer a(sources[0], 0), b(sources[1], 0);
    for (const bool finish : {false, true}) {
      if (finish && r.op != tbcclAvg) continue;  // the same as without
      const std::vector<unsigned char> expected = expected_fold(r, sources, finish);
      Buffer dst(std::vector<unsigned char>(expected.size(), 0), 0);
      reduce::combine(r, dst.data(), a.data(), b.data(), count, finish);
      REQUIRE(dst.equals(expected.data(), expected.size()));
      REQUIRE(dst.guarded());
    }
  });
}

TEST_CASE("combine: counts, aliasing and alignment") {
  constexpr size_t kMost = 130;
  for_each_pair([](const reduce::Reduction& r) {
    const size_t width = reduce::size_of(r.type);
    const std::vector<Element> va = mixture(r.type, kMost, 1), vb = mixture(r.type, kMost, 2);
    const std::vector<unsigned char> expected = expected_fold(r, {va, vb}, true);
    const std::vector<unsigned char> expected_same = expected_fold(r, {va, va}, true);
    const std::vector<unsigned char> fa = Buffer::flatten(va), fb = Buffer::flatten(vb);
    bool right = true;
    for (size_t count = 0; count <= kMost; ++count) {
      const std::vector<unsigned char> cut_a(fa.begin(), fa.begin() + ptrdiff_t(count * width));
      const std::vector<unsigned char> cut_b(fb.begin(), fb.begin() + ptrdiff_t(count * width));
      for (const size_t off : {size_t{0}, size_t{1}, width / 2, width + 3}) {
        for (int alias = 0; alias < 4; ++alias) {
          Buffer a(cut_a, off), b(cut_b, 0),
              c(std::vector<unsigned char>(cut_a.size(), 0), off / 2);
          Buffer& dst = alias == 0 ? c : alias == 2 ? b : a;
          Buffer& second = alias == 3 ? a : b;
          reduce::combine(r, dst.data(), a.data(), second.data(), count, true);
          const auto& want = alias == 3 ? expected_same : expected;
          right = right && dst.equals(want.data(), count * width) && dst.guarded();
          // What is not the destination has not changed.
          right = right && (&dst == &a || a.equals(cut_a.data(), cut_a.size()));
          right = right && (&dst == &b || b.equals(cut_b.data(), cut_b.size()));
        }
      }
    }
    REQUIRE(right);
  });
}

TEST_CASE("fold: 1 to 9 sources, rounded once, any of them the destination") {
  for_each_pair([](const reduce::Reduction& pair) {
    reduce::Reduction r = pair;
    const size_t width = reduce::size_of(r.type);
    for (int k = 1; k <= 9; ++k) {
      r.ranks = k;
      std::vector<std::vector<Element>> sources;
      for (int j = 0; j < k; ++j) sources.push_back(mixture(r.type, 600, uint32_t(10 * k + j)));
      std::vector<std::vector<unsigned char>> flat;
      for (const auto& source : sources) flat.push_back(Buffer::flatten(source));
      for (const bool finish : {false, true}) {
        const std::vector<unsigned char> expected = expected_fold(r, sources, finish);
        bool right = true;
        for (const size_t count :
             {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{63}, size_t{130}, size_t{255},
              size_t{256}, size_t{257}, size_t{600}}) {
          for (int into = -1; into < k; into += 2) {  // -1: a buffer of its own
            std::vector<Buffer> buffers;
            for (int j = 0; j < k; ++j) {
              const std::vector<unsigned char>& all = flat[size_t(j)];
              const std::vector<unsigned char> cut(all.begin(),
                                                   all.begin() + ptrdiff_t(count * width));
              buffers.emplace_back(cut, size_t(j) % 4);
            }
            buffers.emplace_back(std::vector<unsigned char>(count * width, 0), 1);
            std::vector<const void*> pointers;
            for (int j = 0; j < k; ++j) pointers.push_back(buffers[size_t(j)].data());
            Buffer& dst = into < 0 ? buffers.back() : buffers[size_t(into)];
            reduce::fold(r, dst.data(), pointers.data(), k, count, finish);
            right = right && dst.equals(expected.data(), count * width) && dst.guarded();
          }
        }
        REQUIRE(right);
      }
    }
  });
}

TEST_CASE("scale: every type but bool, in place and not") {
  for (const tbcclDataType_t type : reference::kTypes) {
    if (type == tbcclBool) continue;
    const std::vector<Element> values = mixture(type, 300, 5);
    const std::vector<unsigned char> bytes = Buffer::flatten(values);
    std::vector<Element> scalars = reference::awkward(type);
    if (scalars.size() > 40) scalars.resize(40);
    for (const Element& scalar : scalars) {
      reduce::Reduction r;
      r.type = type;
      r.scaled = true;
      std::memcpy(r.scalar, scalar.data(), scalar.size());
      std::vector<Element> results;
      for (const Element& value : values) results.push_back(reference::scale(type, scalar, value));
      const std::vector<unsigned char> expected = Buffer::flatten(results);
      for (const char* const target : reduce::targets()) {
        const OnTarget on(target);
        INFO(reduce::name_of(type) << " on " << target);
        for (const size_t count : {size_t{300}, size_t{67}, size_t{1}, size_t{0}}) {
          const size_t length = count * reduce::size_of(type);
          const std::vector<unsigned char> cut(bytes.begin(), bytes.begin() + ptrdiff_t(length));
          Buffer src(cut, 1), dst(std::vector<unsigned char>(length, 0), 0);
          reduce::scale(r, dst.data(), src.data(), count);
          REQUIRE(dst.equals(expected.data(), length));
          reduce::scale(r, src.data(), src.data(), count);
          REQUIRE(src.equals(expected.data(), length));
          REQUIRE((src.guarded() && dst.guarded()));
        }
      }
    }
  }
}

TEST_CASE("copy: bytes as they are, except averages and what one rank's operator changes") {
  for_each_pair([](const reduce::Reduction& pair) {
    reduce::Reduction r = pair;
    const std::vector<Element> values = mixture(r.type, 77, 9);
    const std::vector<unsigned char> bytes = Buffer::flatten(values);
    Buffer src(values, 1), dst(std::vector<unsigned char>(bytes.size(), 0), 0);
    reduce::copy(r, dst.data(), src.data(), values.size());
    const std::vector<unsigned char> finished =
        r.op == tbcclAvg ? expected_fold(r, {values}, true) : bytes;
    REQUIRE(dst.equals(finished.data(), finished.size()));
    r.ranks = 1;
    reduce::copy(r, dst.data(), src.data(), values.size());
    const bool changes = r.type == tbcclBool || r.op == tbcclAvg || r.op >= tbcclLogicalAnd;
    const std::vector<unsigned char> want = changes ? expected_fold(r, {values}, true) : bytes;
    REQUIRE(dst.equals(want.data(), want.size()));
    reduce::copy(r, src.data(), src.data(), 0);
    REQUIRE(src.equals(bytes.data(), bytes.size()));
  });
}
