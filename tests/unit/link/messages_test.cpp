// Messages over links that work: eager, granted, streaming, in any order of posting.
#include "harness.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::link;
using namespace tbccl::link::testing;
using tbccl::testing::MemoryOptions;

namespace {

MemoryOptions shape(bool slotted, uint32_t chunk = 0) {
  MemoryOptions options;
  options.slotted = slotted;
  options.chunk = chunk;
  return options;
}

}  // namespace

TEST_CASE("a message of any length arrives, whoever is first") {
  const bool slotted = GENERATE(false, true);
  const int trunks = GENERATE(1, 2, 3);
  const uint64_t total = GENERATE(0, 1, 8, 63, 64, 65, 4096, 16384, 65536, 65537, 131072, 131073,
                                  262145, 1000003, 5000000);
  const bool receiver_first = GENERATE(false, true);
  Pair pair(shape(slotted, slotted ? 0 : 10000), trunks);
  REQUIRE(pair.ok);
  Arriving* in = nullptr;
  if (receiver_first) {
    in = &pair.b().receive(0, key_of(3), total, total);
    pair.settle();
  }
  Outgoing& out = pair.a().send(1, key_of(3), total, total);
  pair.settle();
  if (!receiver_first) {
    in = &pair.b().receive(0, key_of(3), total, total);
    pair.settle();
  }
  pair.pass(2);
  CHECK(in->done == 1);
  CHECK(intact(*in, 3));
  CHECK(out.released == 1);
  CHECK(pair.problems() == "");
  CHECK(pair.a().links().idle(1));
}

TEST_CASE("small messages are released at once, and post_send says so") {
  Pair pair;
  REQUIRE(pair.ok);
  Outgoing& out = pair.a().send(1, key_of(0), 100, 100);
  CHECK(out.released == 1);
  CHECK(out.send == nullptr);
  pair.settle();
  Arriving& in = pair.b().receive(0, key_of(0), 100, 100);
  CHECK(in.done == 1);
  CHECK(in.recv == nullptr);
  CHECK(intact(in, 0));
}

TEST_CASE("both ends stream: data becomes available and is granted bit by bit") {
  const bool slotted = GENERATE(false, true);
  const int trunks = GENERATE(1, 2);
  const uint64_t total = GENERATE(5000, 16000, 300000);
  const uint64_t step = GENERATE(40, 1000, 7776);
  Pair pair(shape(slotted, 3000), trunks);
  REQUIRE(pair.ok);
  Outgoing& out = pair.a().send(1, key_of(1), total, 0);
  Arriving& in = pair.b().receive(0, key_of(1), total, 0, 7, 8);
  uint64_t available = 0, granted = 0;
  for (int i = 0; i < 20000 && in.done == 0; ++i) {
    available = std::min(total, available + step);
    if (out.send != nullptr) pair.a().links().extend(out.send, available);
    granted = std::min(total, granted + step / 8 * 8 + 8);
    if (in.recv != nullptr) pair.b().extend(in, granted);
    pair.settle();
    if (i % 16 == 0) pair.pass(1);
  }
  pair.pass(5);
  CHECK(in.done == 1);
  CHECK(intact(in, 1));
  CHECK(out.released == 1);
  CHECK(pair.problems() == "");
}

TEST_CASE("a message that was posted first goes on before a later one") {
  const bool slotted = GENERATE(false, true);
  constexpr uint64_t kTotal = 3'000'000, kMore = 20'000'000;  // more than one window
  Pair pair(shape(slotted), 1);
  REQUIRE(pair.ok);
  Outgoing& first = pair.a().send(1, key_of(1), kTotal, 0);
  Outgoing& second = pair.a().send(1, key_of(2), kMore, 0);
  Arriving& in_first = pair.b().receive(0, key_of(1), kTotal, kTotal);
  Arriving& in_second = pair.b().receive(0, key_of(2), kMore, kMore);
  pair.settle();
  int early = 0;
  pair.b().on_arrived = [&](uint32_t) { early += in_first.done == 0 && in_second.done == 1; };
  pair.a().links().extend(second.send, kMore);
  pair.a().links().extend(first.send, kTotal);
  pair.settle();
  pair.pass(5);
  CHECK(early == 0);
  CHECK(intact(in_first, 1));
  CHECK(intact(in_second, 2));
  CHECK(pair.problems() == "");
}

TEST_CASE("the earlier step of the earlier turn goes first, whichever was posted first") {
  const bool slotted = GENERATE(false, true);
  constexpr uint64_t kTotal = 3'000'000;
  MemoryOptions options = shape(slotted);
  options.queue_frames = 4;
  Pair pair(options, 1);
  REQUIRE(pair.ok);
  const uint64_t early = pair.a().links().take_turn(), late = pair.a().links().take_turn();
  struct What {
    uint64_t turn;
    uint32_t step;
  };
  // The order in which they are posted; a step beyond all that can be told apart is the last.
  const What posted[] = {{late, 0}, {early, 4'000'000'000u}, {early, 7}, {early, 0}, {0, 0}};
  const size_t expected[] = {3, 2, 1, 0, 4};
  std::vector<Outgoing*> out;
  std::vector<Arriving*> in;
  std::vector<size_t> finished;
  for (uint32_t i = 0; i < 5; ++i)
    out.push_back(
        &pair.a().send(1, key_of(i), kTotal, 0, 7, false, posted[i].turn, posted[i].step));
  for (uint32_t i = 0; i < 5; ++i) in.push_back(&pair.b().receive(0, key_of(i), kTotal, kTotal));
  pair.settle();
  pair.b().on_arrived = [&](uint32_t index) {
    if (pair.b().arriving.at(index).done > 0) finished.push_back(index);
  };
  for (Outgoing* message : out) pair.a().links().extend(message->send, kTotal);
  pair.settle();
  pair.pass(5);
  CHECK(finished == std::vector<size_t>(std::begin(expected), std::end(expected)));
  for (uint32_t i = 0; i < 5; ++i) CHECK(intact(*in[i], i));
  CHECK(pair.problems() == "");
}

TEST_CASE("many messages of two communicators, posted in opposite orders") {
  const bool slotted = GENERATE(false, true);
  const int trunks = GENERATE(1, 2);
  const uint64_t total = GENERATE(8, 3000, 40000);
  Pair pair(shape(slotted), trunks);
  REQUIRE(pair.ok);
  constexpr uint32_t kCount = 200;
  std::vector<Arriving*> at_b, at_a;
  for (uint32_t comm = 1; comm <= 2; ++comm) {
    for (uint32_t i = 0; i < kCount; ++i) {
      pair.a().send(1, key_of(i, comm, comm), total, total);
      pair.b().send(0, key_of(i, 3 - comm, 3 - comm), total, total);
    }
  }
  pair.settle();
  for (uint32_t comm = 1; comm <= 2; ++comm) {
    for (uint32_t i = 0; i < kCount; ++i) {
      at_b.push_back(&pair.b().receive(0, key_of(i, 3 - comm, 3 - comm), total, total));
      at_a.push_back(&pair.a().receive(1, key_of(kCount - 1 - i, comm, comm), total, total));
    }
    pair.pass(2);
  }
  pair.pass(20);
  for (uint32_t i = 0; i < 2 * kCount; ++i) {
    CHECK(at_b[i]->done == 1);
    CHECK(intact(*at_b[i], i % kCount));
    CHECK(at_a[i]->done == 1);
    CHECK(intact(*at_a[i], kCount - 1 - i % kCount));
  }
  for (auto* side : {&pair.a(), &pair.b()}) {
    for (auto& [index, out] : side->outgoing) CHECK(out.released == 1);
  }
  CHECK(pair.problems() == "");
}

TEST_CASE("a message that nobody expects is announced once, and can be received later") {
  const uint64_t total = GENERATE(0, 10, 65536, 100000, 131072, 200000);
  const int before = GENERATE(0, 300, 2500);  // others, that use the credit up
  Pair pair;
  REQUIRE(pair.ok);
  const auto tag = [](uint32_t t) { return key_of(t, 0, 1, Class::kPointToPoint); };
  for (int i = 0; i < before; ++i) pair.a().send(1, tag(1000 + i), 100, 100, 7, true);
  Outgoing& out = pair.a().send(1, tag(5), total, total, 7, true);
  pair.pass(3);
  REQUIRE(pair.b().surprises.size() == static_cast<size_t>(before) + 1);
  CHECK(pair.b().surprises.back().key == tag(5));
  CHECK(pair.b().surprises.back().total == total);
  Arriving& in = pair.b().receive(0, tag(5), total, total);
  pair.pass(3);
  CHECK(in.done == 1);
  CHECK(intact(in, 5));
  CHECK(out.released == 1);
  for (int i = 0; i < before; ++i) pair.b().receive(0, tag(1000 + i), 100, 100);
  pair.pass(5);
  for (auto& [index, arriving] : pair.b().arriving) CHECK(arriving.done == 1);
  CHECK(pair.b().surprises.size() == static_cast<size_t>(before) + 1);
  CHECK(pair.problems() == "");
}

TEST_CASE("different arguments are noticed at both ends where both still have the message") {
  const bool receiver_first = GENERATE(false, true);
  const bool length_differs = GENERATE(false, true);
  const uint64_t total = GENERATE(100, 50000);
  Pair pair;
  REQUIRE(pair.ok);
  const uint64_t other = length_differs ? total + 8 : total;
  const uint64_t fingerprint = length_differs ? 7 : 8;
  const auto receive = [&] { pair.b().receive(0, key_of(2), other, other, fingerprint); };
  if (receiver_first) receive();
  pair.settle();
  Outgoing& out = pair.a().send(1, key_of(2), total, total);
  pair.settle();
  if (!receiver_first) receive();
  pair.pass(2);
  CHECK(pair.b().mismatches.size() == 1);
  if (out.released == 0) CHECK(pair.a().mismatches.size() == 1);
  for (auto& [index, in] : pair.b().arriving) {
    CHECK(in.done == 0);
    if (in.recv != nullptr) pair.b().links().withdraw(in.recv);
  }
  if (out.send != nullptr) pair.a().links().withdraw(out.send);
  pair.pass(2);
  CHECK(pair.problems() == "");
}

TEST_CASE("a communicator can be removed with everything in it, and others go on") {
  Pair pair;
  REQUIRE(pair.ok);
  for (uint32_t i = 0; i < 50; ++i) pair.a().send(1, key_of(i, 1, 9), 1000, 1000);
  pair.a().send(1, key_of(99, 1, 9), 200000, 200000);
  pair.settle();
  pair.b().links().remove_communicator(9);
  pair.a().links().remove_communicator(9);
  pair.settle();
  Arriving& in = pair.b().receive(0, key_of(1, 1, 2), 30000, 30000);
  pair.a().send(1, key_of(1, 1, 2), 30000, 30000);
  pair.pass(3);
  CHECK(in.done == 1);
  CHECK(intact(in, 1));
  CHECK(pair.problems() == "");
}
