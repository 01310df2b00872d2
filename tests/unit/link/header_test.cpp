// The bytes on the wire: what is written is read back, and nothing a peer can send is believed
// unchecked.
#include "link/header.h"

#include "link/hello.h"
#include "link/pool.h"
#include "link/table.h"
#include "unit/catch.h"

using namespace tbccl::link;

namespace {

struct Random {
  uint64_t state = 88172645463325252u;
  uint64_t operator()() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
};

}  // namespace

TEST_CASE("a header is read as it was written") {
  Random random;
  for (int i = 0; i < 2000; ++i) {
    Header h;
    h.kind = static_cast<FrameKind>(1 + random() % 6);
    h.flags = static_cast<uint8_t>(random() % 16);
    h.epoch = static_cast<uint16_t>(random());
    h.number = static_cast<uint16_t>(random());
    h.key.comm = static_cast<uint32_t>(random());
    h.sequence = static_cast<uint32_t>(random());
    h.ack = static_cast<uint32_t>(random());
    h.credit = static_cast<uint32_t>(random());
    h.crc = static_cast<uint32_t>(random());
    if (h.kind == FrameKind::kAck) {
      for (auto& word : h.bitmap) word = random();
    } else {
      h.key.cls = static_cast<Class>(random() % 3);
      h.key.step = static_cast<uint32_t>(random());
      h.key.op = random() >> 16;
      h.fingerprint = random();
      h.ordinal = static_cast<uint8_t>(random());
      h.total = 1 + (random() >> 20);
      h.offset = random() % h.total;
      if (h.kind == FrameKind::kData) {
        h.length =
            static_cast<uint32_t>(1 + random() % std::min<uint64_t>(h.total - h.offset, 1 << 20));
      }
    }
    HeaderBytes bytes;
    encode(h, &bytes);
    Header back;
    REQUIRE(decode(bytes.data(), &back) == nullptr);
    HeaderBytes again;
    encode(back, &again);
    CHECK(bytes == again);
    CHECK(back.kind == h.kind);
    CHECK(back.key == h.key);
    CHECK(back.length == h.length);
    CHECK(back.bitmap == h.bitmap);
    CHECK(back.fingerprint == h.fingerprint);
  }
}

TEST_CASE("garbage is refused with a reason, or lies within its own message") {
  Random random;
  Header good;
  good.kind = FrameKind::kData;
  good.total = 1000;
  good.offset = 100;
  good.length = 200;
  HeaderBytes base;
  encode(good, &base);
  int refused = 0;
  for (int i = 0; i < 100000; ++i) {
    HeaderBytes bytes = base;
    const int changes = 1 + static_cast<int>(random() % 8);
    for (int c = 0; c < changes; ++c) bytes[random() % 64] = static_cast<std::byte>(random());
    Header h;
    if (decode(bytes.data(), &h) != nullptr) {
      ++refused;
    } else if (h.kind != FrameKind::kAck) {
      REQUIRE(h.offset <= h.total);
      REQUIRE(h.length <= h.total - h.offset);
    }
  }
  CHECK(refused > 10000);
}

TEST_CASE("the checksum covers every byte of header and payload but itself") {
  Header h;
  h.kind = FrameKind::kData;
  h.total = h.length = 32;
  std::array<std::byte, 32> payload{};
  HeaderBytes bytes;
  encode(h, &bytes);
  const uint32_t crc = checksum(bytes.data(), payload.data(), payload.size());
  for (size_t bit = 0; bit < 64 * 8; ++bit) {
    HeaderBytes damaged = bytes;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    const bool itself = bit / 8 >= 28 && bit / 8 < 32;
    CHECK((checksum(damaged.data(), payload.data(), payload.size()) == crc) == itself);
  }
  for (size_t bit = 0; bit < 32 * 8; ++bit) {
    auto damaged = payload;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK(checksum(bytes.data(), damaged.data(), damaged.size()) != crc);
  }
}

TEST_CASE("a hello is believed only if every bit of it is right") {
  const std::string secret = GENERATE(std::string(), std::string("open sesame"));
  Hello hello;
  hello.session[3] = 9;
  hello.from = 1;
  hello.to = 2;
  hello.trunk = 3;
  hello.epoch = 4;
  std::byte bytes[TBCCL_HELLO_MAX_BYTES];
  const size_t length = encode_hello(hello, secret, bytes);
  Hello back;
  REQUIRE(decode_hello(bytes, length, secret, &back) == nullptr);
  CHECK(back.session == hello.session);
  CHECK(back.trunk == 3);
  CHECK(back.epoch == 4);
  for (size_t cut = 0; cut < length; ++cut)
    CHECK(decode_hello(bytes, cut, secret, &back) != nullptr);
  CHECK(decode_hello(bytes, length, secret + "x", &back) != nullptr);
  if (secret.empty()) return;
  CHECK(decode_hello(bytes, length, "", &back) != nullptr);
  for (size_t bit = 0; bit < length * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK(decode_hello(bytes, length, secret, &back) != nullptr);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST_CASE("the table finds what is in it and nothing else") {
  struct Entry {
    Key key;
    bool in = false;
  };
  KeyTable<Entry> table;
  std::vector<Entry> entries(500);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].key.op = i / 10;
    entries[i].key.step = static_cast<uint32_t>(i % 10);
  }
  Random random;
  for (int i = 0; i < 20000; ++i) {
    Entry& entry = entries[random() % entries.size()];
    REQUIRE(table.find(entry.key) == (entry.in ? &entry : nullptr));
    entry.in ? table.erase(&entry) : table.insert(&entry);
    entry.in = !entry.in;
  }
  size_t count = 0;
  for (const Entry& entry : entries) count += entry.in;
  CHECK(table.size() == count);
  CHECK(table.all().size() == count);
}

TEST_CASE("buffers are used again by size") {
  BufferPool pool;
  std::byte* a = pool.take(100);
  pool.give(a, 100);
  CHECK(pool.take(128) == a);
  CHECK(pool.take(65) != a);
  CHECK(pool.take(1) != nullptr);
  CHECK(pool.take(1 << 20) != nullptr);
}
