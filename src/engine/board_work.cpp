// What is done with the bytes in one turn of a board: cells are filled, folded and copied from.
#include <algorithm>
#include <cstring>

#include "engine/board_cells.h"

namespace tbccl::engine {
namespace {

// A piece of what is left that the budget allows: whole lines, hence whole elements.
uint64_t slice(uint64_t left, uint64_t budget) {
  return std::min({left, kBoardSlice, std::max<uint64_t>(budget, 64) / 64 * 64});
}

void spend(uint64_t* budget, uint64_t bytes) { *budget -= std::min(*budget, bytes); }

}  // namespace

bool Board::in_parts() const {
  return use_ == BoardUse::kReduceScatter || use_ == BoardUse::kExchange ||
         use_ == BoardUse::kScatter;
}

bool Board::folds() const {
  switch (use_) {
    case BoardUse::kOneStep:
    case BoardUse::kTwoStep:
    case BoardUse::kReduceScatter:
    case BoardUse::kScan:
      return true;
    case BoardUse::kReduce:
      return rank_ == root_;
    case BoardUse::kExclusiveScan:
      return rank_ > 0;
    default:
      return false;
  }
}

bool Board::reads(int reader, int owner) const {
  switch (use_) {
    case BoardUse::kSpread:
    case BoardUse::kScatter:
      return owner == root_;
    case BoardUse::kReduce:
    case BoardUse::kGather:
      return reader == root_;
    case BoardUse::kScan:
    case BoardUse::kExclusiveScan:
      return owner < reader;
    default:
      return true;
  }
}

// Of the first of two steps; the second publishes its result.
Board::Range Board::share(int rank) const {
  const auto n = static_cast<uint64_t>(size_);
  const uint64_t piece = ((length_ + n - 1) / n + 63) / 64 * 64;
  const auto r = static_cast<uint64_t>(rank);
  return {std::min(length_, r * piece), std::min(length_, (r + 1) * piece)};
}

const std::byte* Board::published(const Member& m) const {
  const auto mine = static_cast<uint64_t>(in_parts() ? rank_ : 0);
  if (m.input != nullptr) return m.input + mine * bytes_ + chunk_;
  const Cell& cell = *(m.words == nullptr ? cells_ : m.cells)[turn_ % 2];
  return cell.payload(used()) + mine * stride_;
}

// `at_` counts the bytes of all pieces, one after the other. Nobody else reads this rank's own.
bool Board::fill_cell(uint64_t* budget) {
  std::byte* const cell = cells_[(turn_ + 1) % 2]->payload(used());
  const auto rank = static_cast<uint64_t>(rank_);
  Range own{0, 0};
  if (use_ == BoardUse::kTwoStep) own = share(rank_);
  if (in_parts()) own = {rank * length_, (rank + 1) * length_};
  if (reduction_->scaled) own = {0, 0};
  const uint64_t end = in_parts() ? length_ * members_.size() : length_;
  while (at_ < end) {
    if (at_ == own.from && own.to > own.from) {
      at_ = own.to;
      continue;
    }
    if (*budget == 0) return false;
    const uint64_t part = at_ / length_, in = at_ % length_;
    const uint64_t until =
        at_ < own.from ? std::min(own.from, (part + 1) * length_) : (part + 1) * length_;
    const uint64_t piece = slice(until - at_, *budget);
    const std::byte* const from = input_ + part * bytes_ + chunk_ + in;
    std::byte* const to = cell + part * stride_ + in;
    if (reduction_->scaled) {
      reduce::scale(*reduction_, to, from, piece / element_);
    } else {
      std::memcpy(to, from, piece);
    }
    at_ += piece;
    spend(budget, piece);
  }
  return true;
}

int Board::collect_sources() {
  const auto rank = static_cast<uint64_t>(rank_);
  const std::byte* const own = reduction_->scaled
                                   ? published(members_[rank])
                                   : input_ + (in_parts() ? rank * bytes_ : 0) + chunk_;
  int count = 0;
  for (int i = 0; i < size_; ++i) {
    if (i == rank_) {
      if (use_ != BoardUse::kExclusiveScan) sources_[static_cast<size_t>(count++)] = own + at_;
    } else if (reads(rank_, i)) {
      sources_[static_cast<size_t>(count++)] = published(members_[static_cast<size_t>(i)]) + at_;
    }
  }
  return count;
}

// Of what was published, combined in rank order, up to `end`; false: it may not be read any more.
bool Board::fold_piece(uint64_t end, uint64_t* budget) {
  const uint64_t piece = slice(end - at_, *budget);
  const bool two = use_ == BoardUse::kTwoStep;
  const int sources = collect_sources();
  if (!start_reading()) return false;
  // What others read is copied to its place, not stored there by the kernel: their caches hold
  // its lines, for which a kernel's stores wait one by one (twice the time of a whole all-reduce
  // of 2 MiB), and memcpy's do not.
  std::byte* const own = output_ + chunk_ + at_;
  std::byte* const cell = cells_[(turn_ + 1) % 2]->payload(used()) + at_;
  std::byte* const first = two && refers_output_ ? cell : own;
  reduce::fold(*reduction_, first, sources_.data(), sources, piece / element_, true);
  if (!stop_reading()) return false;
  if (two) std::memcpy(first == own ? cell : own, first, piece);
  at_ += piece;
  spend(budget, piece);
  return true;
}

bool Board::fold(uint64_t* budget) {
  const bool two = use_ == BoardUse::kTwoStep;
  if (folds()) {
    if (!all_arrived()) return false;
    const uint64_t end = two ? share(rank_).to : length_;
    if (at_ < end) {
      if (!fold_piece(end, budget)) return false;
      if (at_ < end) return true;
    }
  }
  if (two) publish();
  next_ = 1;
  at_ = two ? share((rank_ + 1) % size_).from : 0;
  stage_ = Stage::kGather;
  if (!two) copy_own();
  return true;
}

// From one's own input to one's own output.
void Board::copy_own() {
  const bool root = rank_ == root_;
  const auto rank = static_cast<uint64_t>(rank_);
  const std::byte* from = input_ + chunk_;
  std::byte* to = output_ + chunk_;
  if (use_ == BoardUse::kExchange) {
    from += rank * bytes_;
    to += rank * bytes_;
  } else if (use_ == BoardUse::kCollect || (use_ == BoardUse::kGather && root)) {
    to += rank * bytes_;
  } else if (use_ == BoardUse::kScatter && root) {
    from += rank * bytes_;
  } else if (use_ != BoardUse::kSpread || !root) {
    return;
  }
  if (from != to && length_ > 0) std::memcpy(to, from, length_);
}

bool Board::gather(uint64_t* budget) {
  if (use_ == BoardUse::kMeet && !all_arrived()) return false;
  const bool two = use_ == BoardUse::kTwoStep;
  const bool copies = two || (!folds() && use_ != BoardUse::kMeet && use_ != BoardUse::kReduce &&
                              use_ != BoardUse::kExclusiveScan);
  for (; copies && next_ < size_; ++next_) {
    const int from = (rank_ + next_) % size_;
    const Range range = two ? share(from) : Range{0, length_};
    if (at_ < range.from) at_ = range.from;
    if (!reads(rank_, from)) continue;
    Member& m = members_[static_cast<size_t>(from)];
    // An empty piece has arrived, too: whose call it is shall be known.
    if (at_ < range.to || range.to == 0) {
      if (!arrived(m)) return false;
      if (at_ < range.to && !copy_from(m, range, budget)) return false;
      if (at_ < range.to) return true;
    }
    at_ = 0;
  }
  next_chunk();
  return true;
}

// From what a member published of this chunk, `at_` and on; false: it may not be read any more.
bool Board::copy_from(const Member& m, Range range, uint64_t* budget) {
  const auto owner = static_cast<uint64_t>(&m - members_.data());
  const bool in_blocks =
      use_ == BoardUse::kExchange || use_ == BoardUse::kCollect || use_ == BoardUse::kGather;
  const std::byte* source = published(m);
  if (use_ == BoardUse::kTwoStep) {
    source = m.output != nullptr ? m.output + chunk_ : m.cells[turn_ % 2]->payload(length_);
  }
  std::byte* const to = output_ + (in_blocks ? owner * bytes_ : 0) + chunk_;
  const uint64_t piece = slice(range.to - at_, *budget);
  if (m.referred && !start_reading()) return false;
  std::memcpy(to + at_, source + at_, piece);
  if (m.referred && !stop_reading()) return false;
  at_ += piece;
  spend(budget, piece);
  return true;
}

}  // namespace tbccl::engine
