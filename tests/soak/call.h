// One operation of a plan, as all ranks know it, and what it means for the memory of one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "draw.h"
#include "perf/types.h"

namespace soak {

// How contributions are combined; kAffine is a user's operator that does not commute.
enum class Combining { kNothing, kBuiltIn, kScaled, kAffine };

struct Call {
  tbcclOperation_t operation = tbcclOpBarrier;  // a message between two ranks: tbcclOpSend
  int slot = 0;                                 // of the communicator (plan.h)
  int ranks = 1;                                // of it
  tbccl::perf::Type type{};
  tbccl::perf::Operator op{};
  Combining combining = Combining::kNothing;
  int root = 0;
  std::vector<uint64_t> counts;  // elements of each block; one where there are no blocks
  uint64_t seed = 0;             // of the data
  uint64_t variety = 0;          // seed of what each rank decides for itself
  // Messages: from, to; send-receive: `distance` ranks up the circle.
  int from = 0, to = 0, distance = 0, tag = 0;
  bool any_source = false;

  uint64_t count() const { return counts.front(); }
  // All-to-all: elements from one rank to another, as many as back.
  uint64_t between(int a, int b) const {
    return counts[static_cast<size_t>((a + b) % ranks) % counts.size()];
  }
};

// Whether a rank of the communicator does anything in it.
bool takes_part(const Call& call, int rank);

// A stretch of a buffer, in elements, and what is in it.
struct Block {
  enum Content { kGiven, kMoved, kCombined };
  Content content = kMoved;
  uint64_t at = 0, count = 0;
  int rank = 0;        // whose contribution (kGiven), or data (kMoved)
  uint64_t key = 0;    // kMoved: which of that rank's data
  uint64_t first = 0;  // kGiven, kCombined: index of the first element in the vectors
  int combined = 0;    // kCombined: of ranks 0 to combined - 1
};

// What one rank gives and gets. A message to oneself has two roles.
enum class Role { kWhole, kSender, kReceiver };

struct Layout {
  bool sends = false, receives = false;  // whether there is such a buffer
  std::vector<Block> send, recv;
  // In place: where both begin in the memory they share.
  bool in_place = false;
  uint64_t send_at = 0, recv_at = 0;
  // Of the blocks, for the forms with variable counts.
  std::vector<size_t> send_counts, send_places, recv_counts, recv_places;
  bool displaced = false;  // places are given
};

Layout layout_of(const Call& call, int rank, Role role);

// Writes what a block holds.
void fill(const Call& call, const Block& block, std::byte* out);

// The operator behind kAffine: x -> a * x + b modulo 2^32, a in the lower half of each 64 bits; the
// lower rank's function is applied first.
void apply_affine(const void* in, void* inout, size_t count, tbcclDataType_t, void*);

}  // namespace soak
