// CRC32C (Castagnoli, reflected polynomial 0x82f63b78, as in iSCSI, RFC 3720 appendix B.4). Uses
// the processor's instruction where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tbccl {

// The checksum of `data`; give the checksum of what came before to go on.
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

// The same by tables alone: what crc32c falls back to, and what it is tested against.
uint32_t crc32c_portable(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace tbccl
