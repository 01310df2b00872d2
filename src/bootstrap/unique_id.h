// What the 128 bytes of a tbcclUniqueId hold.
#pragma once

#include <vector>

#include "base/status.h"
#include "bootstrap/wire.h"
#include "tbccl/tbccl.h"

namespace tbccl::bootstrap {

struct IdContent {
  Bytes16 session{};
  uint64_t host = 0;  // hash of the identity of the host that listens
  uint16_t port = 0;
  std::vector<Endpoint> endpoints;  // without loopback, as many as fit
};

tbcclUniqueId encode_id(const IdContent& content);
// InvalidArgument if these are not the bytes that make_unique_id gave.
Status decode_id(const tbcclUniqueId& id, IdContent* content);
uint64_t host_hash(std::string_view identity);

}  // namespace tbccl::bootstrap
