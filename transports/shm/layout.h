// What lies in shared memory. Every region has one writer, its maker; its peers map it for reading,
// and believe nothing in it: words are loaded once and checked before they are used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared_memory.h"
#include "tbccl/transport.h"

namespace tbccl::shm {

// Changes with everything in this file; ends of different versions do not meet.
inline constexpr uint32_t kLayoutVersion = 1;

// Written by one process and read by others: must not need a lock.
using Word = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4);

// Words that different processors write are this far apart (pairs of lines are fetched together on
// x86; lines are this long on arm64 Macs).
inline constexpr size_t kApart = 128;

inline constexpr uint32_t kEntries = 64;            // frames that may be on their way
inline constexpr uint32_t kInlineBytes = 304;       // payloads up to this lie beside their header
inline constexpr uint32_t kRingBytes = 512u << 10;  // for the payloads of the others
inline constexpr uint32_t kMaxPayload = kRingBytes / 2;
inline constexpr uint32_t kBestPayload = 64u << 10;
// From here on a payload that the peer can read itself is not copied.
inline constexpr uint32_t kReferFrom = 32u << 10;

enum class Where : uint32_t {
  kInside = 0,   // in the entry
  kRing = 1,     // in the ring, at `offset`
  kReferred = 2  // in memory that the reference in the entry names
};

// One frame. `sequence` is stored last, and counts the frames of the trunk from 1.
struct alignas(kApart) Entry {
  Word sequence;
  Word length;
  Word where;
  Word offset;
  uint8_t header[TBCCL_FRAME_HEADER_BYTES];
  uint8_t inside[kInlineBytes];  // the payload, or a tbcclReference_t
};
static_assert(sizeof(Entry) == 3 * kApart);

// One end of a trunk: the frames that it sends, and its words for the other end.
struct TrunkRegion {
  // How many of the other end's frames this end is done with.
  alignas(kApart) Word consumed;
  // 1: before it sleeps next, this end wants to hear that its frames were consumed.
  alignas(kApart) Word awaiting;
  // This end is reading memory that the other has referred to.
  alignas(kApart) Word reading;
  // Nothing that this end has referred to may be read any more.
  alignas(kApart) Word closed;
  alignas(kApart) Entry entries[kEntries];
  alignas(4096) uint8_t ring[kRingBytes];
};
inline constexpr size_t kTrunkRegionBytes =
    (sizeof(TrunkRegion) + kSharedPage - 1) / kSharedPage * kSharedPage;

// One context: its word for all peers, and the board that the link layer writes.
struct BoardRegion {
  alignas(kApart) Word asleep;  // 1: published frames and boards are noticed only after a ring
};
inline constexpr size_t kBoardOffset = kSharedPage;
inline constexpr size_t kBoardBytes = 8u << 20;
inline constexpr size_t kBoardRegionBytes = kBoardOffset + kBoardBytes;

}  // namespace tbccl::shm
