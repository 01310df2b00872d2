// Frames over established trunks: every length, both ways at once, back pressure, within one
// process and between two.
#include <algorithm>
#include <string>

#include "rig.h"

using namespace rig;

namespace {

const std::vector<uint32_t> kSizes = {
    0,       1,    7,       8,         63,     64,     65,    200,    303,           kInlineMost,
    305,     4096, 8192,    32'767,    32'768, 32'769, 3,     65'535, 65'536,        65'537,
    100'001, 0,    131'072, kMost - 1, kMost,  kMost,  kMost, 2,      kMost / 2 + 1, 0};

// Sends frames as far as they are taken; keeps the payloads until they are reported as sent.
class Stream {
 public:
  Stream(Side& side, Peer& peer, uint64_t first, std::vector<uint32_t> sizes)
      : side_(side), peer_(peer), first_(first), sizes_(std::move(sizes)) {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      payloads_.push_back(payload_of(first_ + i, sizes_[i]));
    }
  }
  void push() {
    while (next_ < sizes_.size()) {
      const auto code = side_.send(peer_, first_ + next_, payloads_[next_]);
      failed = failed || code == TBCCL_FAILED;
      if (code != TBCCL_OK) {
        waiting_ = peer_.writable;
        ++refusals;
        return;
      }
      ++next_;
    }
  }
  // After a refusal it goes on only when told to.
  void push_if_writable() {
    if (waiting_ < 0 || peer_.writable > waiting_) {
      waiting_ = -1;
      push();
    }
  }
  bool done() const { return next_ == sizes_.size() && peer_.sent.size() == sizes_.size(); }
  // The frames that `receiver` got are exactly these, in this order.
  void check(const Peer& receiver) const {
    REQUIRE_FALSE(failed);
    REQUIRE(receiver.frames.size() == sizes_.size());
    std::vector<uint64_t> tokens = peer_.sent;
    std::sort(tokens.begin(), tokens.end());
    for (size_t i = 0; i < sizes_.size(); ++i) {
      INFO("frame " << i << " of " << sizes_[i] << " bytes");
      REQUIRE(receiver.frames[i].header == header_of(first_ + i));
      REQUIRE(receiver.frames[i].payload == payloads_[i]);
      REQUIRE(tokens[i] == first_ + i);
    }
  }
  size_t size() const { return sizes_.size(); }
  int refusals = 0;
  bool failed = false;

 private:
  Side& side_;
  Peer& peer_;
  uint64_t first_;
  std::vector<uint32_t> sizes_;
  std::vector<Bytes> payloads_;
  size_t next_ = 0;
  int waiting_ = -1;
};

void exchange(Pair& pair, Stream& there, Stream& back) {
  there.push();
  back.push();
  REQUIRE(pair.pump_until([&] {
    there.push_if_writable();
    back.push_if_writable();
    return there.done() && back.done() && pair.to_a->frames.size() >= there.size() &&
           pair.to_b->frames.size() >= back.size();
  }));
  there.check(*pair.to_a);
  back.check(*pair.to_b);
}

}  // namespace

TEST_CASE("frames of all lengths arrive whole and in order, both ways at once", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  Stream there(pair.a, *pair.to_b, 1000, kSizes);
  Stream back(pair.b, *pair.to_a, 2000, std::vector<uint32_t>(kSizes.rbegin(), kSizes.rend()));
  exchange(pair, there, back);
  REQUIRE(pair.a.wrong.empty());
}

TEST_CASE("many small frames", "[shm]") {
  const LeakCheck leaks;
  Pair pair;
  std::vector<uint32_t> sizes;
  for (uint32_t i = 0; i < 5000; ++i) sizes.push_back(i * 7919 % 700);
  Stream there(pair.a, *pair.to_b, 0, sizes);
  Stream back(pair.b, *pair.to_a, 100'000, sizes);
  exchange(pair, there, back);
  REQUIRE(there.refusals > 0);
}
