#include "engine/board.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/shared_memory.h"
#include "engine/board_cells.h"
#include "engine/engine.h"

namespace tbccl::engine {
namespace {

constexpr uint32_t kInputReferred = 1;        // instead of a copy; in an operation's first turn
constexpr uint32_t kOutputReferred = 2;       // results will be, instead of copies
constexpr uint64_t kReferFrom = 1024 * 1024;  // bytes of a vector for which references pay
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
  if (bytes_ == 0 && (use_ == BoardUse::kOneStep || use_ == BoardUse::kTwoStep))
    use_ = BoardUse::kMeet;
  root_ = call.peer;
  in_place_ = input_ == output_;
  fills_ = reduction_->scaled && bytes_ > 0;  // own contributions are read from the cell, too
  for (int reader = 0; reader < size_ && !fills_; ++reader) {
    fills_ = use_ != BoardUse::kMeet && reader != rank_ && reads(reader, rank_);
  }
  refers_input_ = refers_output_ = any_referred_ = false;
  for (Member& m : members_) {
    m.referred = false;
    m.input = m.output = nullptr;
  }
  first_turn_ = turn_ + 1;
  begin_chunk(0);
  disagreeing_ = -1;
  disagreed_ = stuck_ = false;
  unreadable_ = -1;
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
      for (int reader = 0; reader < size_; ++reader) {
        const Member& m = members_[static_cast<size_t>(reader)];
        if (m.words != nullptr && reads(reader, rank_) && m.words->read.load() < turn_)
          return false;
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
    if (chunk_ == 0 && input_bytes() >= kReferFrom) refer();
  }
  if (fills_ && !refers_input_ && !fill_cell(budget)) return true;
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

// Long vectors that all can read need not be copied: the cell carries the references instead. Where
// results overwrite what others have still to read there is no way around the copy.
void Board::refer() {
  if (!fills_ || reduction_->scaled || use_ == BoardUse::kOneStep) return;
  const bool overwrites =
      use_ == BoardUse::kExchange || use_ == BoardUse::kScan || use_ == BoardUse::kExclusiveScan;
  if (in_place_ && overwrites) return;
  auto* const to = reinterpret_cast<References*>(cells_[(turn_ + 1) % 2]->area);
  if (static_cast<size_t>(size_) * sizeof(References) > kBoardArea) return;
  bool input = true, output = use_ == BoardUse::kTwoStep;
  for (int rank = 0; rank < size_ && input; ++rank) {
    const Member& m = members_[static_cast<size_t>(rank)];
    if (m.words == nullptr) continue;
    References references{};
    input = links_.refer(m.peer, input_, input_bytes(), &references.input);
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
  m.input = links_.reach(m.peer, mine.input, input_bytes());
  const bool output = (cell.flags & kOutputReferred) != 0;
  if (output) m.output = links_.reach(m.peer, mine.output, bytes_);
  if (m.input != nullptr && (!output || m.output != nullptr)) return;
  stuck_ = true;
  unreadable_ = static_cast<int>(&m - members_.data());
}

bool Board::all_arrived() {
  if (gathered_) return true;
  for (int owner = 0; owner < size_; ++owner) {
    if (reads(rank_, owner) && !arrived(members_[static_cast<size_t>(owner)])) return false;
  }
  gathered_ = true;
  return true;
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

void Board::begin_chunk(uint64_t from) {
  chunk_ = from;
  at_ = 0;
  const uint64_t most = in_parts() ? kBoardArea / members_.size() / 64 * 64 : kBoardArea;
  length_ = std::min<uint64_t>(bytes_ - chunk_, most);
  // Pieces begin at lines of their own unless all of them are in the header's line.
  const bool tiny = length_ * members_.size() <= Cell::kInline;
  stride_ = tiny ? length_ : (length_ + 63) / 64 * 64;
  stage_ = Stage::kFill;
}

void Board::next_chunk() {
  if (chunk_ + length_ < bytes_) return begin_chunk(chunk_ + length_);
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
  const uint64_t ahead = std::min<uint64_t>(used(), kFetchBytes);
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
    const bool here = stage_ == Stage::kLetGo ? !reads(rank, rank_) || m.words->read.load() >= turn_
                                              : has_published(m, turn_);
    if (!here) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace tbccl::engine
