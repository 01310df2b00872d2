#include "call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "perf/verify.h"

namespace soak {
namespace {

using tbccl::perf::Data;

bool is_scan(tbcclOperation_t operation) {
  return operation == tbcclOpScan || operation == tbcclOpExScan;
}

uint64_t compose(uint64_t lower, uint64_t upper) {
  const auto a = static_cast<uint32_t>(upper), b = static_cast<uint32_t>(upper >> 32);
  const uint32_t slope = static_cast<uint32_t>(lower) * a;
  const uint32_t shift = static_cast<uint32_t>(lower >> 32) * a + b;
  return uint64_t{shift} << 32 | slope;
}

uint64_t affine(uint64_t seed, int rank, uint64_t index) {
  return tbccl::perf::rank_hash(tbccl::perf::element_hash(seed, index), rank) | 1;
}

void fill_affine(const Call& call, const Block& block, std::byte* out) {
  const bool given = block.content == Block::kGiven;
  for (uint64_t i = 0; i < block.count; ++i) {
    uint64_t value = affine(call.seed, given ? block.rank : 0, block.first + i);
    for (int rank = 1; !given && rank < block.combined; ++rank) {
      value = compose(value, affine(call.seed, rank, block.first + i));
    }
    std::memcpy(out + i * sizeof(value), &value, sizeof(value));
  }
}

// Where the blocks of one buffer begin: one after the other, or in any order and with gaps.
std::vector<size_t> places(const std::vector<uint64_t>& counts, bool displaced, uint64_t seed) {
  std::vector<size_t> order(counts.size()), places(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  Draw draw(seed);
  if (displaced) draw.shuffle(order);
  size_t at = 0;
  for (const size_t block : order) {
    if (displaced) at += draw.below(5);
    places[block] = at;
    at += counts[block];
  }
  return places;
}

// Builds the layout of one rank, operation by operation.
class Builder {
 public:
  Builder(const Call& call, int rank, Role role) : call_(call), rank_(rank), role_(role) {
    Draw draw(derived(call.variety, static_cast<uint64_t>(rank)));
    wants_in_place_ = Draw(call.variety).chance(30) || draw.chance(30);
    layout_.displaced = draw.chance(50);
    places_seed_ = draw.word();
  }

  Layout build() {
    const int n = call_.ranks;
    switch (call_.operation) {
      case tbcclOpBarrier:
        break;
      case tbcclOpAllReduce:
        give_vector();
        get_combined(n);
        in_place(0, 0);
        break;
      case tbcclOpReduce:
        give_vector();
        if (is_root()) get_combined(n);
        if (is_root()) in_place(0, 0);
        break;
      case tbcclOpScan:
        give_vector();
        get_combined(rank_ + 1);
        in_place(0, 0);
        break;
      case tbcclOpExScan:
        give_vector();
        layout_.receives = true;
        if (rank_ > 0) get_combined(rank_);
        in_place(0, 0);
        break;
      case tbcclOpBroadcast:
        if (is_root()) send_block(0, call_.count(), 0);
        get_block(0, call_.count(), call_.root, 0);
        if (is_root()) in_place(0, 0);
        break;
      case tbcclOpSend:
        if (role_ == Role::kSender) send_block(0, call_.count(), 0);
        if (role_ == Role::kReceiver) get_block(0, call_.count(), call_.from, 0);
        break;
      case tbcclOpSendRecv:
        send_block(0, call_.count(), 0);
        get_block(0, call_.count(), (rank_ + n - call_.distance) % n, 0);
        break;
      default:
        build_blocks();
    }
    return std::move(layout_);
  }

 private:
  void build_blocks() {
    const std::vector<uint64_t> counts = block_counts();
    const std::vector<size_t> at = places(counts, displaced(), places_seed_);
    const auto mine = static_cast<size_t>(rank_);
    switch (call_.operation) {
      case tbcclOpAllGather:
      case tbcclOpAllGatherV:
      case tbcclOpGather:
      case tbcclOpGatherV:
        send_block(0, counts[mine], 0);
        if (rooted() && !is_root()) break;
        for (size_t b = 0; b < counts.size(); ++b)
          get_block(at[b], counts[b], static_cast<int>(b), 0);
        keep(counts, at, &layout_.recv_counts, &layout_.recv_places);
        in_place(at[mine], 0);
        break;
      case tbcclOpReduceScatter:
      case tbcclOpReduceScatterV:
        give_blocks(counts, at);
        get_combined(call_.ranks, counts[mine], sum_before(counts, mine));
        keep(counts, at, &layout_.send_counts, &layout_.send_places);
        in_place(0, at[mine]);
        break;
      case tbcclOpScatter:
      case tbcclOpScatterV:
        get_block(0, counts[mine], call_.root, mine);
        if (!is_root()) break;
        for (size_t b = 0; b < counts.size(); ++b) send_block(at[b], counts[b], b);
        keep(counts, at, &layout_.send_counts, &layout_.send_places);
        in_place(0, at[mine]);
        break;
      default:  // all-to-all, -v
        build_all_to_all(counts, at);
    }
  }

  void build_all_to_all(const std::vector<uint64_t>& counts, const std::vector<size_t>& at) {
    in_place(0, 0);
    const std::vector<size_t> back =
        layout_.in_place ? at : places(counts, displaced(), places_seed_ + 1);
    for (size_t b = 0; b < counts.size(); ++b) {
      send_block(at[b], counts[b], b);
      get_block(back[b], counts[b], static_cast<int>(b), static_cast<uint64_t>(rank_));
    }
    keep(counts, at, &layout_.send_counts, &layout_.send_places);
    keep(counts, back, &layout_.recv_counts, &layout_.recv_places);
  }

  std::vector<uint64_t> block_counts() const {
    const bool pairs = call_.operation == tbcclOpAllToAll || call_.operation == tbcclOpAllToAllV;
    std::vector<uint64_t> counts;
    for (int b = 0; b < call_.ranks; ++b) {
      counts.push_back(pairs ? call_.between(rank_, b)
                             : call_.counts[static_cast<size_t>(b) % call_.counts.size()]);
    }
    return counts;
  }

  bool displaced() const { return layout_.displaced && call_.operation >= tbcclOpAllGatherV; }
  bool is_root() const { return rank_ == call_.root; }
  bool rooted() const {
    return call_.operation == tbcclOpGather || call_.operation == tbcclOpGatherV;
  }
  void in_place(uint64_t send_at, uint64_t recv_at) {
    layout_.in_place = wants_in_place_;
    if (layout_.in_place) layout_.send_at = send_at, layout_.recv_at = recv_at;
  }
  static uint64_t sum_before(const std::vector<uint64_t>& counts, size_t block) {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(block),
                           uint64_t{0});
  }
  static void keep(const std::vector<uint64_t>& counts, const std::vector<size_t>& at,
                   std::vector<size_t>* kept_counts, std::vector<size_t>* kept_places) {
    kept_counts->assign(counts.begin(), counts.end());
    *kept_places = at;
  }

  void send_block(uint64_t at, uint64_t count, uint64_t key) {
    layout_.sends = true;
    layout_.send.push_back({Block::kMoved, at, count, rank_, key, 0, 0});
  }
  void get_block(uint64_t at, uint64_t count, int rank, uint64_t key) {
    layout_.receives = true;
    layout_.recv.push_back({Block::kMoved, at, count, rank, key, 0, 0});
  }
  void give_vector() {
    layout_.sends = true;
    layout_.send.push_back({Block::kGiven, 0, call_.count(), rank_, 0, 0, 0});
  }
  void give_blocks(const std::vector<uint64_t>& counts, const std::vector<size_t>& at) {
    layout_.sends = true;
    for (size_t b = 0; b < counts.size(); ++b) {
      layout_.send.push_back({Block::kGiven, at[b], counts[b], rank_, 0, sum_before(counts, b), 0});
    }
  }
  void get_combined(int ranks) { get_combined(ranks, call_.count(), 0); }
  void get_combined(int ranks, uint64_t count, uint64_t first) {
    layout_.receives = true;
    layout_.recv.push_back({Block::kCombined, 0, count, 0, 0, first, ranks});
  }

  const Call& call_;
  const int rank_;
  const Role role_;
  bool wants_in_place_ = false;
  uint64_t places_seed_ = 0;
  Layout layout_;
};

}  // namespace

bool takes_part(const Call& call, int rank) {
  return call.operation != tbcclOpSend || rank == call.from || rank == call.to;
}

Layout layout_of(const Call& call, int rank, Role role) {
  return Builder(call, rank, role).build();
}

void fill(const Call& call, const Block& block, std::byte* out) {
  if (block.content == Block::kMoved) {
    return tbccl::perf::fill_bytes(derived(call.seed, block.key), block.rank, 0,
                                   block.count * call.type.bytes, out);
  }
  if (call.combining == Combining::kAffine) return fill_affine(call, block, out);
  const Data data{call.type, call.op.op, call.ranks, call.seed, 0, is_scan(call.operation)};
  if (block.content == Block::kGiven) {
    return tbccl::perf::fill_input(data, block.rank, block.first, block.count, out);
  }
  tbccl::perf::fill_prefix(data, block.combined, block.first, block.count, out);
}

void apply_affine(const void* in, void* inout, size_t count, tbcclDataType_t, void*) {
  const auto* lower = static_cast<const unsigned char*>(in);
  auto* upper = static_cast<unsigned char*>(inout);
  for (size_t i = 0; i < count * 8; i += 8) {
    uint64_t a = 0, b = 0;
    std::memcpy(&a, lower + i, sizeof(a));
    std::memcpy(&b, upper + i, sizeof(b));
    b = compose(a, b);
    std::memcpy(upper + i, &b, sizeof(b));
  }
}

}  // namespace soak
