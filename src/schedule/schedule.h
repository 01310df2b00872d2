// A schedule: what one rank does in one collective, as data.
//
// Coordinates.  A collective works on one vector of `blocks` consecutive blocks, each cut into
//   pieces / blocks consecutive pieces by a table of pieces + 1 byte offsets that is computed per
//   call (piece_offsets). A schedule names data by piece numbers only, so one schedule serves all
//   counts.
// Buffers.  The user's buffers hold some consecutive blocks of the vector each (shape_of):
//     all-reduce, broadcast, reduce, scan    one block, which both hold
//     all-gather, gather                     block r is what rank r contributes: its input; the
//                                            output holds all n
//     reduce-scatter, scatter                the input holds all n, the output of rank r block r
//     all-to-all                             2n blocks: block p is what goes to rank p (the input),
//                                            block n + p what comes from it (the output)
//   The vector of an all-to-all is a rank's own affair: each knows its row and its column of the
//   n x n matrix only. In all others every block is the same on all ranks.
// Variable counts.  Blocks differ in length and lie anywhere in the user's buffers, so a range of
//   several blocks has no place there. In gather-v, scatter-v and all-to-all-v a rank knows only
//   the lengths of blocks that its own buffers hold; the others count as empty.
// Phases.  A phase is a step repeated `repeat` times; peer, piece, tag and slot of iteration i are
//   affine in i modulo something. Iteration i works on the `pieces` consecutive pieces that begin
//   with piece(i) (no wrap-around). Iterations of a phase start in order and may overlap.
// Messages.  A send of one rank meets the receive of the peer that has the same tag; both cover
//   the same number of bytes. Tags of one ordered pair of ranks are unique within a schedule.
// Streaming.  A dependency of kind kDone holds back only the bytes it covers: a step may work on
//   every byte that lies below the first byte not yet done of each step it depends on. So
//   pipelining is a property of the engine, and a schedule never names segments.
// Released.  A send is released when its bytes cannot be read any more (the peer has acknowledged
//   them, or they were copied). kReleased holds a step back as a whole. In the worst case a send
//   is released only after the matching receive has been completed: schedules may not rely on
//   anything better (the verifier does not). A step that sends nothing is released when it is
//   complete: for steps that depend on each other's bytes in other places of the vector.
// Scratch.  `scratch_slots` slots, each as long as the longest piece range any phase uses in them.
//   A receive phase whose `consumer` is set may be given a shorter slot that is used as a ring
//   (byte x of the range lies at (x - start of range) mod slot length): it is granted no further
//   than the slot length beyond what the consuming phase (a kFold with the same ranges) has done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tbccl/tbccl.h"

namespace tbccl::schedule {

enum class Kind : uint8_t {
  kSend,        // to peer, from src
  kRecv,        // from peer, into dst
  kRecvReduce,  // from peer; dst = received (op) src, or src (op) received if !received_first
  kCopy,        // dst = src
  kFold,        // dst = s(0) (op) s(1) (op) ... (op) s(sources-1), rounded once; see `own`
  kScale        // dst = scalar * src, rounded (pre-multiplied sum)
};

enum class Buffer : uint8_t { kInput, kOutput, kScratch };

// value(i) = base + (start + stride * i) mod modulus; without a modulus (0): base + start + stride
// * i.
struct Affine {
  int32_t base = 0;
  int32_t start = 0;
  int32_t stride = 0;
  int32_t modulus = 0;
  int32_t at(int32_t i) const;
  bool operator==(const Affine&) const = default;
};

// Where a range of pieces lies. Input and output: where the user's buffer holds these pieces.
// Scratch: the byte with vector offset x at x - offset(origin) from the start of slot(i); without
// an origin (-1) the slot begins with the range. A shift moves the range by so many pieces, to
// others of the same lengths, before it is looked for.
struct Operand {
  Buffer buffer = Buffer::kInput;
  int32_t origin = -1;
  Affine slot;
  Affine shift;
  bool operator==(const Operand&) const = default;
};

enum class DepKind : uint8_t { kDone, kReleased };
inline constexpr int32_t kAllIterations = INT32_MIN;

// So many iterations of a phase may be open at once: from its first incomplete one on (a send is
// complete when it is released). Schedules must not need more, the engine may not offer fewer.
inline constexpr int32_t kOpenIterations = 16;

// Iteration i waits for iteration i + shift of `phase` (none, if there is no such iteration), or
// for all of them.
struct Dep {
  int16_t phase = 0;
  DepKind kind = DepKind::kDone;
  int32_t shift = 0;
  bool operator==(const Dep&) const = default;
};

struct Phase {
  Kind kind = Kind::kSend;
  int32_t repeat = 1;
  int32_t pieces = 1;          // length of the piece range of one iteration
  Affine peer;                 // kSend, kRecv, kRecvReduce
  Affine piece;                // first piece of the range
  Affine tag;                  // message number, kSend, kRecv, kRecvReduce
  Operand src;                 // kSend, kRecvReduce, kCopy, kScale; kFold: the own contribution
  Operand dst;                 // all but kSend
  bool received_first = true;  // kRecvReduce: operand order
  bool finish =
      false;  // kRecvReduce, kFold, kCopy: last combination of this range (average: divide here)
  int32_t sources = 0;    // kFold: number of contributions
  int32_t own = -1;       // kFold: index of the contribution that `src` holds, -1: none
  Affine fold_slot;       // kFold: contribution k != own lies in scratch slot fold_slot.at(k)
  int16_t consumer = -1;  // kRecv into scratch: the kFold that frees it
  std::vector<Dep> deps;
  bool operator==(const Phase&) const = default;
};

struct Schedule {
  std::string algorithm;  // "ring", ...: for people
  int32_t rank = 0;
  int32_t size = 1;
  int32_t blocks = 1;
  int32_t pieces = 1;        // of all blocks; the same number in each
  int32_t input_first = 0;   // piece that the send buffer begins with
  int32_t output_first = 0;  // piece that the receive buffer begins with
  int32_t scratch_slots = 0;
  bool rank_order =
      true;  // contributions are combined in rank order (needed without commutativity)
  std::vector<Phase> phases;
  bool operator==(const Schedule&) const = default;
};

// What is to be done, as far as schedules depend on it.
struct Collective {
  tbcclOperation_t operation = tbcclOpAllReduce;
  bool in_place = false;
  bool scale = false;  // pre-multiplied sum: a kScale from input to output comes first, then
                       // everything is in place
  int32_t root = 0;
  bool operator==(const Collective&) const = default;
};

// Consecutive blocks of the vector.
struct Window {
  int32_t first = 0, count = 0;
  bool holds(int32_t block) const { return block >= first && block < first + count; }
};

// What the buffers of one rank hold. A rank without a buffer holds nothing in it.
struct Shape {
  int32_t blocks = 1;
  Window input, output;
  // In place the input's block b lies where the output's block b + alias does.
  int32_t alias = 0;
};
Shape shape_of(const Collective& collective, int32_t rank, int32_t size);

bool reduces(tbcclOperation_t operation);         // contributions are combined
bool varies(tbcclOperation_t operation);          // a v-form
tbcclOperation_t uniform(tbcclOperation_t form);  // the operation that a v-form is a form of
// Blocks of the full vector (nccl-tests' size column): n where every rank contributes, or gets,
// one.
int32_t vector_blocks(tbcclOperation_t operation, int32_t size);

// Byte offsets of the pieces of `count` elements of `element` bytes, pieces + 1 entries: even, in
// units of whole elements, and of 64 bytes where the vector is long enough; equal on all ranks.
void piece_offsets(int32_t pieces, uint64_t count, uint32_t element, std::span<uint64_t> offsets);
// The same for a schedule's blocks, of `count` elements each, or of counts[b].
void block_offsets(const Schedule& schedule, uint64_t count, uint32_t element,
                   std::span<uint64_t> offsets);
void block_offsets(const Schedule& schedule, std::span<const uint64_t> counts, uint32_t element,
                   std::span<uint64_t> offsets);

// Bytes of one scratch slot for these offsets; `window` limits slots that are used as rings.
uint64_t scratch_slot_bytes(const Schedule& schedule, std::span<const uint64_t> offsets,
                            uint64_t window);

std::string to_text(const Schedule& schedule);

}  // namespace tbccl::schedule
