#include "engine/board.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/shared_memory.h"
#include "engine/engine.h"

namespace tbccl::engine {
namespace {

constexpr uint32_t kInputReferred = 1;        // instead of a copy; in an operation's first turn
constexpr uint32_t kOutputReferred = 2;       // results will be, instead of copies
constexpr uint64_t kReferFrom = 1024 * 1024;  // bytes of a vector for which references pay
constexpr uint64_t kSlice = 64 * 1024;        // of work between two looks at anything else
// How long a withdrawal waits for readers in this process, and in others.
constexpr uint64_t kWithdrawNs = 10'000'000'000;
constexpr uint64_t kWithdrawOthersNs = 100'000'000;
constexpr uint64_t kFetchBytes = 512;  // of the next cell, before it is needed
constexpr size_t kPage = 4096;

// What a member needs to read another's vectors.
struct References {
  tbcclReference_t input, output;
};

}  // namespace

// Small payloads share the header's cache line.
struct alignas(64) Board::Cell {
  static constexpr uint64_t kInline = 32;
  std::atomic<uint64_t> turn;
  uint64_t fingerprint;
  uint32_t flags;
  uint32_t unused[3];
  std::byte data[kInline];
  std::byte area[kBoardArea];

  const std::byte* payload(uint64_t bytes) const { return bytes <= kInline ? data : area; }
  std::byte* payload(uint64_t bytes) { return bytes <= kInline ? data : area; }
};

struct Board::Words {
  alignas(64) std::atomic<uint64_t> read;
  alignas(64) std::atomic<uint32_t> closed;
  uint64_t process[2];         // which one this rank is in
  std::atomic<uint32_t> comm;  // the communicator that this rank uses the set for; 0: none
  alignas(64) std::atomic<uint32_t> reading;
};

size_t Board::set_bytes() {
  static_assert(sizeof(Words) <= kPage);
  return kPage + 2 * cell_bytes() + kPage;
}

size_t Board::cell_bytes() { return (sizeof(Cell) + kPage - 1) / kPage * kPage; }

size_t Board::sets(const tbcclBoard_t& board) { return board.bytes / set_bytes(); }

std::unique_ptr<Board> Board::join(link::Links& links, const ChannelOptions& options) {
  if (options.size < 2 || options.comm == 0) return nullptr;
  std::unique_ptr<Board> board(new Board(links, options));
  const auto set_of = [&](int rank) {
    return options.board_sets.empty()
               ? static_cast<size_t>(options.comm - 1)
               : static_cast<size_t>(options.board_sets[static_cast<size_t>(rank)]);
  };
  board->set_ = set_of(options.rank);
  for (int rank = 0; rank < options.size; ++rank) {
    Member& m = board->members_[static_cast<size_t>(rank)];
    m.peer = options.peers[static_cast<size_t>(rank)];
    if (rank == options.rank) continue;
    tbcclBoard_t shared{};
    if (!links.board(m.peer, &shared) || board->set_ >= sets(shared) ||
        set_of(rank) >= sets(shared)) {
      return nullptr;
    }
    auto* const mine = static_cast<std::byte*>(shared.mine) + board->set_ * set_bytes();
    const auto* const theirs =
        static_cast<const std::byte*>(shared.theirs) + set_of(rank) * set_bytes();
    board->words_ = reinterpret_cast<Words*>(mine);
    m.words = reinterpret_cast<const Words*>(theirs);
    for (size_t i = 0; i < 2; ++i) {
      // The second begins a line further in its page: the two do not compete for a cache set.
      const size_t cell = kPage + i * (cell_bytes() + 64);
      board->cells_[i] = reinterpret_cast<Cell*>(mine + cell);
      m.cells[i] = reinterpret_cast<const Cell*>(theirs + cell);
    }
    m.asleep = reinterpret_cast<const std::atomic<uint32_t>*>(shared.asleep);
  }
  board->make_ready();
  return board;
}

// The set may have been another communicator's.
void Board::make_ready() {
  const auto process = process_token();
  std::memcpy(words_->process, process.data(), sizeof words_->process);
  words_->read.store(0);
  words_->closed.store(0);
  words_->reading.store(0);
  for (Cell* cell : cells_) {
    cell->turn.store(0);
    cell->fingerprint = 0;
    cell->flags = 0;
  }
  words_->comm.store(comm_);
}

void Board::let_go() { words_->comm.store(0); }

bool Board::abandoned() const {
  return std::all_of(members_.begin(), members_.end(), [this](const Member& m) {
    return m.words == nullptr || m.words->comm.load() != comm_ || links_.gone(m.peer);
  });
}

Board::Board(link::Links& links, const ChannelOptions& options)
    : links_(links),
      comm_(options.comm),
      rank_(options.rank),
      size_(options.size),
      members_(static_cast<size_t>(options.size)),
      sources_(static_cast<size_t>(options.size)) {}

void Board::begin(const Call& call, uint32_t element) {
  use_ = call.plan->board;
  reduction_ = &call.reduction;
  input_ = static_cast<const std::byte*>(call.input);
  output_ = static_cast<std::byte*>(call.output);
  // What lies in a set that was another communicator's belongs to another call, whatever it is.
  fingerprint_ = call.fingerprint + comm_ * 0x9e3779b97f4a7c15u;
  element_ = element;
  bytes_ = call.count * element;
  if (bytes_ == 0 && use_ != BoardUse::kSpread) use_ = BoardUse::kMeet;
  root_ = call.peer;
  fills_ = use_ != BoardUse::kMeet && (use_ != BoardUse::kSpread || rank_ == root_);
  refers_input_ = refers_output_ = any_referred_ = false;
  for (Member& m : members_) {
    m.referred = false;
    m.input = m.output = nullptr;
  }
  first_turn_ = turn_ + 1;
  chunk_ = 0;
  length_ = std::min<uint64_t>(bytes_, kBoardArea);
  at_ = 0;
  disagreeing_ = -1;
  disagreed_ = stuck_ = false;
  unreadable_ = -1;
  stage_ = Stage::kFill;
}

bool Board::advance(uint64_t* budget) {
  bool moved = false;
  while (stage_ != Stage::kDone && *budget > 0 && step(budget)) moved = true;
  return moved;
}

bool Board::step(uint64_t* budget) {
  switch (stage_) {
    case Stage::kFill:
      return fill(budget);
    case Stage::kFold:
      return fold(budget);
    case Stage::kGather:
      return gather(budget);
    case Stage::kLetGo:
      for (const Member& m : members_) {
        if (m.words != nullptr && m.words->read.load() < turn_) return false;
      }
      stage_ = Stage::kDone;
      return true;
    case Stage::kDone:
      break;
  }
  return false;
}

// --- publishing ---------------------------------------------------------------------------------

bool Board::has_published(const Member& m, uint64_t turn) const {
  return m.words == nullptr || m.cells[turn % 2]->turn.load() >= turn;
}

bool Board::fill(uint64_t* budget) {
  if (at_ == 0) {
    for (const Member& m : members_) {
      if (!has_published(m, turn_)) return false;
    }
    if (disagreeing_ = contradicting(); disagreeing_ >= 0) return false;
    if (chunk_ == 0 && bytes_ >= kReferFrom) refer();
  }
  const bool copies = fills_ && !refers_input_;
  // Nobody else reads this rank's own share of the first of two steps.
  const Range own = use_ == BoardUse::kTwoStep && !reduction_->scaled ? share(rank_) : Range{0, 0};
  while (copies && at_ < length_) {
    if (at_ == own.from && own.to > own.from) {
      at_ = own.to;
      continue;
    }
    if (*budget == 0) return true;
    const uint64_t end = at_ < own.from ? own.from : length_;
    const uint64_t piece = std::min({end - at_, kSlice, std::max<uint64_t>(*budget, 64) / 64 * 64});
    std::byte* const to = cells_[(turn_ + 1) % 2]->payload(length_) + at_;
    if (reduction_->scaled) {
      reduce::scale(*reduction_, to, input_ + chunk_ + at_, piece / element_);
    } else {
      std::memcpy(to, input_ + chunk_ + at_, piece);
    }
    at_ += piece;
    *budget -= std::min(*budget, piece);
  }
  publish();
  at_ = use_ == BoardUse::kTwoStep ? share(rank_).from : 0;
  stage_ = Stage::kFold;
  return true;
}

void Board::publish() {
  Cell& cell = *cells_[(turn_ + 1) % 2];
  cell.fingerprint = fingerprint_;
  cell.flags = (refers_input_ ? kInputReferred : 0) | (refers_output_ ? kOutputReferred : 0);
  cell.turn.store(++turn_);
  gathered_ = false;
  ring();
}

void Board::ring() {
  for (const Member& m : members_) {
    if (m.asleep != nullptr && m.asleep->load() != 0) links_.ring(m.peer);
  }
}

// Long vectors that all can read need not be copied: the cell carries the references instead.
void Board::refer() {
  if (!fills_ || reduction_->scaled || use_ == BoardUse::kOneStep) return;
  auto* const to = reinterpret_cast<References*>(cells_[(turn_ + 1) % 2]->area);
  if (static_cast<size_t>(size_) * sizeof(References) > kBoardArea) return;
  bool input = true, output = use_ == BoardUse::kTwoStep;
  for (int rank = 0; rank < size_ && input; ++rank) {
    const Member& m = members_[static_cast<size_t>(rank)];
    if (m.words == nullptr) continue;
    References references{};
    input = links_.refer(m.peer, input_, bytes_, &references.input);
    output = input && output && links_.refer(m.peer, output_, bytes_, &references.output);
    to[rank] = references;
  }
  refers_input_ = input;
  refers_output_ = input && output;
  any_referred_ = any_referred_ || input;
}

// --- reading ------------------------------------------------------------------------------------

bool Board::arrived(Member& m) {
  if (m.words == nullptr) return true;
  const Cell& cell = *m.cells[turn_ % 2];
  if (stuck_ || cell.turn.load() < turn_) return false;
  if (cell.fingerprint != fingerprint_) {
    disagreeing_ = static_cast<int>(&m - members_.data());
    return false;
  }
  if (turn_ == first_turn_ && cell.flags != 0 && !m.referred) take_references(m);
  return !stuck_;
}

// A broadcast's root reads nobody's cell, and would not see that another rank takes itself for it.
int Board::contradicting() const {
  if (turn_ == 0) return -1;
  for (const Member& m : members_) {
    if (m.words == nullptr) continue;
    const Cell& theirs = *m.cells[turn_ % 2];
    if (theirs.turn.load() == turn_ && theirs.fingerprint != cells_[turn_ % 2]->fingerprint) {
      return static_cast<int>(&m - members_.data());
    }
  }
  return -1;
}

void Board::take_references(Member& m) {
  const Cell& cell = *m.cells[turn_ % 2];
  References mine;
  std::memcpy(&mine, cell.area + static_cast<size_t>(rank_) * sizeof mine, sizeof mine);
  m.referred = any_referred_ = true;
  m.input = links_.reach(m.peer, mine.input, bytes_);
  const bool output = (cell.flags & kOutputReferred) != 0;
  if (output) m.output = links_.reach(m.peer, mine.output, bytes_);
  if (m.input != nullptr && (!output || m.output != nullptr)) return;
  stuck_ = true;
  unreadable_ = static_cast<int>(&m - members_.data());
}

bool Board::all_arrived() {
  if (gathered_) return true;
  for (Member& m : members_) {
    if (!arrived(m)) return false;
  }
  gathered_ = true;
  return true;
}

Board::Range Board::share(int rank) const {
  const auto n = static_cast<uint64_t>(size_);
  const uint64_t piece = ((length_ + n - 1) / n + 63) / 64 * 64;
  const auto r = static_cast<uint64_t>(rank);
  return {std::min(length_, r * piece), std::min(length_, (r + 1) * piece)};
}

bool Board::start_reading() {
  if (!any_referred_) return true;
  words_->reading.store(1);
  if (!closed_to_us()) return true;
  words_->reading.store(0);
  return false;
}

bool Board::stop_reading() {
  if (!any_referred_) return true;
  words_->reading.store(0);
  return !closed_to_us();
}

bool Board::closed_to_us() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& m) { return m.referred && m.words->closed.load() != 0; });
}

// What was published is combined in rank order: all of it, or the own share.
bool Board::fold(uint64_t* budget) {
  if (use_ == BoardUse::kSpread || use_ == BoardUse::kMeet) {
    next_ = 1;
    stage_ = Stage::kGather;
    return true;
  }
  if (!all_arrived()) return false;
  const bool two = use_ == BoardUse::kTwoStep;
  const uint64_t end = two ? share(rank_).to : length_;
  if (at_ < end) {
    const uint64_t piece = std::min({end - at_, kSlice, std::max<uint64_t>(*budget, 64) / 64 * 64});
    const uint64_t where = chunk_ + at_;
    for (size_t i = 0; i < members_.size(); ++i) {
      const Member& m = members_[i];
      const std::byte* const in_cell = static_cast<int>(i) != rank_
                                           ? m.cells[turn_ % 2]->payload(length_)
                                           : cells_[turn_ % 2]->payload(length_);
      if (static_cast<int>(i) == rank_ && !reduction_->scaled) {
        sources_[i] = input_ + where;
      } else {
        sources_[i] = m.input != nullptr ? m.input + where : in_cell + at_;
      }
    }
    if (!start_reading()) return false;
    // What others read is copied to its place, not stored there by the kernel: their caches hold
    // its lines, for which a kernel's stores wait one by one (twice the time of a whole all-reduce
    // of 2 MiB), and memcpy's do not.
    std::byte* const own = output_ + where;
    std::byte* const cell = cells_[(turn_ + 1) % 2]->payload(length_) + at_;
    std::byte* const first = two && refers_output_ ? cell : own;
    reduce::fold(*reduction_, first, sources_.data(), size_, piece / element_, true);
    if (!stop_reading()) return false;
    if (two) std::memcpy(first == own ? cell : own, first, piece);
    at_ += piece;
    *budget -= std::min(*budget, piece);
    if (at_ < end) return true;
  }
  if (!two) {
    next_chunk();
    return true;
  }
  publish();
  next_ = 1;
  at_ = share((rank_ + 1) % size_).from;
  stage_ = Stage::kGather;
  return true;
}

bool Board::gather(uint64_t* budget) {
  if (use_ == BoardUse::kMeet) {
    if (!all_arrived()) return false;
    next_chunk();
    return true;
  }
  if (use_ == BoardUse::kSpread) {
    Member& m = members_[static_cast<size_t>(root_)];
    if (rank_ == root_) {
      if (output_ != input_ && length_ > 0) {
        std::memcpy(output_ + chunk_, input_ + chunk_, length_);
        *budget -= std::min(*budget, length_);
      }
      next_chunk();
      return true;
    }
    if (!arrived(m)) return false;
    const std::byte* const source =
        m.input != nullptr ? m.input + chunk_ : m.cells[turn_ % 2]->payload(length_);
    if (!copy_from(m, source, {0, length_}, budget)) return false;
    if (at_ == length_) next_chunk();
    return true;
  }
  while (next_ < size_) {
    const int from = (rank_ + next_) % size_;
    Member& m = members_[static_cast<size_t>(from)];
    const Range range = share(from);
    if (at_ < range.to) {
      if (!arrived(m)) return false;
      const std::byte* const source =
          m.output != nullptr ? m.output + chunk_ : m.cells[turn_ % 2]->payload(length_);
      if (!copy_from(m, source, range, budget)) return false;
      if (at_ < range.to) return true;
    }
    ++next_;
    at_ = share((rank_ + next_) % size_).from;
  }
  next_chunk();
  return true;
}

// From what a member published of this chunk, `at_` and on; false: it may not be read any more.
bool Board::copy_from(const Member& m, const std::byte* source, Range range, uint64_t* budget) {
  const uint64_t piece = std::min({range.to - at_, kSlice, std::max<uint64_t>(*budget, 64)});
  if (m.referred && !start_reading()) return false;
  if (piece > 0) std::memcpy(output_ + chunk_ + at_, source + at_, piece);
  if (m.referred && !stop_reading()) return false;
  at_ += piece;
  *budget -= std::min(*budget, piece);
  return true;
}

void Board::next_chunk() {
  chunk_ += length_;
  at_ = 0;
  if (chunk_ < bytes_) {
    length_ = std::min<uint64_t>(bytes_ - chunk_, kBoardArea);
    stage_ = Stage::kFill;
    return;
  }
  if (any_referred_) {
    words_->read.store(turn_);
    ring();  // who has referred waits for this
  } else {
    words_->read.store(turn_, std::memory_order_release);  // nobody sleeps on it
  }
  stage_ = refers_input_ ? Stage::kLetGo : Stage::kDone;
  fetch_next_cell();
}

// All have read what is in it. Until the next call its lines come back from their caches.
void Board::fetch_next_cell() {
  const Cell& cell = *cells_[(turn_ + 1) % 2];
  __builtin_prefetch(&cell, 1);
  const uint64_t ahead = std::min<uint64_t>(length_, kFetchBytes);
  if (ahead <= Cell::kInline) return;
  for (uint64_t at = 0; at < ahead; at += 64) __builtin_prefetch(cell.area + at, 1);
}

// --- endings ------------------------------------------------------------------------------------

void Board::withdraw() {
  const bool referred = stage_ != Stage::kDone && refers_input_;
  stage_ = Stage::kDone;
  if (!referred) return;
  words_->closed.store(1);
  const uint64_t start = now_ns();
  for (const Member& m : members_) {
    if (m.words == nullptr) continue;
    const bool here = std::memcmp(m.words->process, words_->process, sizeof words_->process) == 0;
    const uint64_t limit = here ? kWithdrawNs : kWithdrawOthersNs;
    while (m.words->reading.load() != 0 && now_ns() - start < limit) std::this_thread::yield();
  }
}

bool Board::idle() const {
  return std::all_of(members_.begin(), members_.end(), [this](const Member& m) {
    return m.words == nullptr || links_.gone(m.peer) || m.words->read.load() >= turn_;
  });
}

std::vector<int> Board::waiting_for() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    const Member& m = members_[static_cast<size_t>(rank)];
    if (m.words == nullptr) continue;
    const bool here =
        stage_ == Stage::kLetGo ? m.words->read.load() >= turn_ : has_published(m, turn_);
    if (!here) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace tbccl::engine
