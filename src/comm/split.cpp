#include "comm/split.h"

#include <algorithm>

#include "base/formatted.h"
#include "base/hash.h"
#include "base/log.h"
#include "selection/selection.h"

namespace tbccl::comm {
namespace {

constexpr uint32_t kMostText = 1u << 16;  // bytes of TBCCL_ALGO
constexpr uint64_t kRefused = 1, kOptions = 2, kDeterministic = 4;
constexpr uint64_t kFailed = 1, kShares = 2, kOnBoard = 4;

std::string describe_split(const engine::Call&) { return "split()"; }

uint64_t low(int value) { return static_cast<uint32_t>(value); }
int number(uint64_t bits) { return static_cast<int>(static_cast<uint32_t>(bits)); }

}  // namespace

schedule::Basis restricted(const schedule::Basis& basis, const std::vector<int>& ranks) {
  schedule::Basis part = basis;
  part.size = static_cast<int32_t>(ranks.size());
  part.board = false;
  part.host.clear();
  part.cables.clear();
  std::vector<int32_t> hosts;  // of the whole, by rank of the part
  std::vector<int32_t> place(static_cast<size_t>(basis.size), -1);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto rank = static_cast<size_t>(ranks[i]);
    place[rank] = static_cast<int32_t>(i);
    if (basis.host.empty()) continue;
    hosts.push_back(basis.host[rank]);
    const auto first = std::find(hosts.begin(), hosts.end(), hosts.back());
    part.host.push_back(static_cast<int32_t>(first - hosts.begin()));
  }
  for (const schedule::Cable& cable : basis.cables) {
    const int32_t a = place[static_cast<size_t>(cable.a)];
    const int32_t b = place[static_cast<size_t>(cable.b)];
    if (a >= 0 && b >= 0) part.cables.push_back(schedule::Cable{a, b, cable.rate});
  }
  part.index_cables();
  return part;
}

std::vector<int> members_of(int color, const std::vector<int>& colors,
                            const std::vector<int>& keys) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < colors.size(); ++rank) {
    if (colors[rank] == color) ranks.push_back(static_cast<int>(rank));
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
  });
  return ranks;
}

Split::Split(Communicator& parent, const SplitWish& wish) : parent_(parent) {
  refusal_ = wish_for(wish);
  mine_.refused = !refusal_.ok();
}

Status Split::wish_for(const SplitWish& wish) {
  mine_.color = wish.color;
  mine_.key = wish.key;
  mine_.turn = parent_.family_->next_turn();
  if (wish.color < 0 && wish.color != TBCCL_NOCOLOR) {
    return {tbcclInvalidArgument,
            formatted("colour {} is negative; ranks that are in no new communicator give "
                      "TBCCL_NOCOLOR",
                      wish.color)};
  }
  // What the parent agreed on, not what this rank's environment says.
  const schedule::Basis& basis = parent_.basis_;
  settings_ = parent_.settings_;
  settings_.algorithms = basis.algorithms;
  settings_.deterministic = basis.deterministic;
  settings_.comm_name = parent_.name_ + wish.suffix;
  if (Status status = Settings::apply(wish.config, &settings_); !status.ok()) return status;
  if (settings_.transports != parent_.settings_.transports ||
      settings_.cabling != parent_.settings_.cabling) {
    return {tbcclInvalidArgument,
            "transports and cabling are those of the communicator that is split: leave these "
            "fields of the configuration unset"};
  }
  if (Status status = selection::check_overrides(settings_.algorithms); !status.ok()) return status;
  if (settings_.algorithms.size() > kMostText) {
    return {tbcclInvalidArgument, formatted("algorithms has {} bytes; at most {} are possible",
                                            settings_.algorithms.size(), kMostText)};
  }
  if (parent_.family_->members() >= Family::kMost) {
    return {tbcclSystemError,
            formatted("{} communicators share these links; destroy some that are not needed",
                      Family::kMost)};
  }
  mine_.deterministic = settings_.deterministic;
  mine_.text = static_cast<uint32_t>(settings_.algorithms.size());
  mine_.options =
      settings_.algorithms != basis.algorithms || settings_.deterministic != basis.deterministic;
  if (wish.color != TBCCL_NOCOLOR) mine_.board_set = parent_.lane().reserve_board();
  return {};
}

Status Split::run(std::unique_ptr<Communicator>* child) {
  parent_.was_split_.store(true);
  Status status = tell();
  if (status.ok()) status = exchange_options();
  if (!status.ok()) {
    return_board_set();
    return status;
  }
  std::unique_ptr<Communicator> made;
  Status making;
  try {
    if (!ranks_.empty()) making = make(&made);
  } catch (const std::bad_alloc&) {
    making = Status(tbcclSystemError, "there is not enough memory for another communicator");
  }
  status = agree(making, made.get());
  if (!status.ok()) {
    // Where the others have come to another end they must not wait for this rank.
    if (made != nullptr) made->end_calls(status);
    return status;
  }
  if (made != nullptr) {
    log::info("rank {} of {} is rank {} of {} in communicator {}", parent_.rank_, parent_.size_,
              made->rank_, made->size_, made->name_);
  }
  *child = std::move(made);
  return {};
}

void Split::return_board_set() {
  parent_.lane().return_board(mine_.board_set);
  mine_.board_set = -1;
}

Status Split::combine(void* data, uint64_t count, tbcclDataType_t type, int step) {
  Operation operation;
  operation.operation = tbcclOpAllReduce;
  operation.input = operation.output = data;
  operation.count = count;
  operation.type = type;
  operation.op = tbcclBitOr;
  engine::Call call;
  if (Status status = parent_.prepare(operation, &call); !status.ok()) return status;
  call.operation = "split";
  call.describe = describe_split;
  // Not to be taken for an all-reduce of the user's.
  Fingerprint print;
  print.add(call.fingerprint);
  print.add(fnv1a64("split"));
  print.add(static_cast<uint64_t>(step));
  call.fingerprint = print.value();
  return parent_.lane().run(parent_.channel_, call);
}

Status Split::tell() {
  const auto size = static_cast<size_t>(parent_.size_);
  std::vector<uint64_t> words(size * kWords, 0);
  uint64_t* const own = words.data() + static_cast<size_t>(parent_.rank_) * kWords;
  own[0] = low(mine_.color) | low(mine_.key) << 32;
  own[1] = mine_.turn | low(mine_.board_set + 1) << 32;
  own[2] = mine_.text | ((mine_.refused ? kRefused : 0) | (mine_.options ? kOptions : 0) |
                         (mine_.deterministic ? kDeterministic : 0))
                            << 32;
  if (Status status = combine(words.data(), words.size(), tbcclUint64, 1); !status.ok()) {
    return status;
  }
  if (!refusal_.ok()) return refusal_;
  std::vector<int> colors, keys;
  for (size_t rank = 0; rank < size; ++rank) {
    const uint64_t* const w = words.data() + rank * kWords;
    Wish wish;
    wish.color = number(w[0]);
    wish.key = number(w[0] >> 32);
    wish.turn = static_cast<uint32_t>(w[1]);
    wish.board_set = number(w[1] >> 32) - 1;
    wish.text = static_cast<uint32_t>(w[2]);
    const uint64_t flags = w[2] >> 32;
    wish.refused = (flags & kRefused) != 0;
    wish.options = (flags & kOptions) != 0;
    wish.deterministic = (flags & kDeterministic) != 0;
    if (wish.refused) {
      return {tbcclInvalidArgument,
              formatted("rank {} refused its arguments, so that nobody has a new communicator; "
                        "its own error says why",
                        rank)};
    }
    colors.push_back(wish.color);
    keys.push_back(wish.key);
    all_.push_back(wish);
  }
  if (mine_.color != TBCCL_NOCOLOR) ranks_ = members_of(mine_.color, colors, keys);
  return {};
}

// Every rank comes to the same answer about which texts there are: those of first ranks of colours.
Status Split::exchange_options() {
  std::vector<int> colors, keys, firsts;
  for (const Wish& wish : all_) {
    colors.push_back(wish.color);
    keys.push_back(wish.key);
  }
  uint64_t bytes = 0;
  std::vector<uint64_t> offsets(all_.size(), 0);
  for (size_t rank = 0; rank < all_.size(); ++rank) {
    const Wish& wish = all_[rank];
    if (!wish.options || wish.color == TBCCL_NOCOLOR) continue;
    if (members_of(wish.color, colors, keys).front() != static_cast<int>(rank)) continue;
    offsets[rank] = bytes;
    bytes += wish.text;
    firsts.push_back(static_cast<int>(rank));
  }
  std::string texts(bytes, '\0');
  const bool among = std::find(firsts.begin(), firsts.end(), parent_.rank_) != firsts.end();
  if (among)
    texts.replace(offsets[static_cast<size_t>(parent_.rank_)], mine_.text, settings_.algorithms);
  if (bytes > 0) {
    if (Status status = combine(texts.data(), bytes, tbcclUint8, 2); !status.ok()) return status;
  }
  if (ranks_.empty()) return {};
  const auto first = static_cast<size_t>(ranks_.front());
  const Wish& wish = all_[first];
  const std::string algorithms =
      wish.options ? texts.substr(offsets[first], wish.text) : parent_.basis_.algorithms;
  const bool deterministic = wish.options ? wish.deterministic : parent_.basis_.deterministic;
  if (algorithms != settings_.algorithms || deterministic != settings_.deterministic) {
    log::warn(
        "rank {}: algorithms or deterministic differ from those of the new communicator's "
        "first rank ('{}', {}), which are used",
        parent_.rank_, algorithms, deterministic ? 1 : 0);
  }
  settings_.algorithms = algorithms;
  settings_.deterministic = deterministic;
  return {};
}

Status Split::make(std::unique_ptr<Communicator>* child) {
  Family& family = *parent_.family_;
  std::vector<int> members;
  for (int rank : ranks_) members.push_back(parent_.members_[static_cast<size_t>(rank)]);
  const uint32_t made_number = Family::number_of(all_[static_cast<size_t>(ranks_.front())].turn,
                                                 members.front(), family.size());
  if (made_number == 0) {
    return_board_set();
    return {tbcclSystemError, "there are no more numbers for communicators of this job"};
  }
  const auto own = std::find(ranks_.begin(), ranks_.end(), parent_.rank_);
  child->reset(new Communicator(parent_.family_, made_number,
                                static_cast<int>(own - ranks_.begin()), members, settings_));
  Communicator& c = **child;
  c.name_ = settings_.comm_name;
  c.basis_ = restricted(parent_.basis_, ranks_);
  c.basis_.algorithms = settings_.algorithms;
  c.basis_.deterministic = settings_.deterministic;
  engine::ChannelOptions channel;
  channel.comm = c.number_;
  channel.rank = c.rank_;
  channel.size = c.size_;
  channel.peers = std::move(members);
  channel.name = c.name_;
  bool all_have_sets = true;
  for (int rank : ranks_) {
    channel.board_sets.push_back(all_[static_cast<size_t>(rank)].board_set);
    all_have_sets = all_have_sets && channel.board_sets.back() >= 0;
  }
  family.enter(&c, channel);
  on_board_ = all_have_sets && shares_memory(c) && family.lane().join_board(c.channel_);
  if (!on_board_) return_board_set();
  return {};
}

// With every other member; cables between hosts of one machine count as such.
bool Split::shares_memory(const Communicator& child) const {
  if (child.size_ < 2) return false;
  for (int a = 0; a < child.size_; ++a) {
    for (int b = 0; b < a; ++b) {
      if (child.basis_.medium(a, b) != schedule::Medium::kHost) return false;
    }
  }
  bool all = true;
  parent_.lane().with_links([&](link::Links& links) {
    for (int peer : child.members_) {
      tbcclBoard_t board{};
      all = all && (peer == child.family_->rank() || links.board(peer, &board));
    }
  });
  return all;
}

Status Split::agree(const Status& made, Communicator* child) {
  std::vector<uint64_t> words(static_cast<size_t>(parent_.size_), 0);
  const bool shares = made.ok() && child != nullptr && shares_memory(*child);
  words[static_cast<size_t>(parent_.rank_)] =
      (made.ok() ? 0 : kFailed) | (shares ? kShares : 0) | (on_board_ ? kOnBoard : 0);
  if (Status status = combine(words.data(), words.size(), tbcclUint64, 3); !status.ok()) {
    return status;
  }
  if (!made.ok()) return made;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    if ((words[rank] & kFailed) == 0) continue;
    return {tbcclSystemError, formatted("rank {} could not make its new communicator, so that "
                                        "nobody has one; its own error says why",
                                        rank)};
  }
  if (child == nullptr) return {};
  const auto all_have = [&](uint64_t flag) {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](int rank) { return (words[static_cast<size_t>(rank)] & flag) != 0; });
  };
  if (on_board_ && !all_have(kOnBoard)) parent_.lane().leave_board(child->channel_);
  // The basis says that memory is shared, also where every set of lines was taken: the choice of
  // algorithms, and with it rounding, depends on what is there, not on what is in use.
  if (all_have(kShares)) {
    if (parent_.basis_.board) {
      child->basis_.board = true;
    } else {
      child->basis_.use_shared_memory(true);
    }
  }
  child->basis_hash_ = child->basis_.hash();
  child->plans_ = std::make_unique<PlanCache>(child->basis_, child->rank_);
  return {};
}

Status Communicator::split(const SplitWish& wish, std::unique_ptr<Communicator>* child) {
  return Split(*this, wish).run(child);
}

}  // namespace tbccl::comm
