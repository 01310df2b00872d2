// The table from an all-gather that the caller gives, instead of a root.
#pragma once

#include <string>

#include "base/status.h"
#include "bootstrap/wire.h"
#include "tbccl/tbccl.h"

namespace tbccl::bootstrap {

// What a rank contributes; at most kCardBytes, padded.
inline constexpr size_t kCardBytes = 1024;
struct Card {
  uint32_t rank = 0, size = 0;
  Bytes16 session{};
  Member member;
  std::string encode() const;
  static bool parse(std::string_view bytes, Card* out);
};

// Calls `allgather` once, on this thread. The session is the one that rank 0 proposes. Errors name
// the callback or the rank whose part is wrong, and are the same on all ranks that see the same.
Status exchange_table(uint32_t rank, uint32_t size, const Bytes16& session, const Member& me,
                      tbcclExchangeFn allgather, void* context, Table* table);

}  // namespace tbccl::bootstrap
