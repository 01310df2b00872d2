// Little-endian numbers in byte strings, whatever the machine.
#pragma once

#include <cstdint>

namespace tbccl::tcp {

inline void put_u16(uint8_t* to, uint16_t value) {
  to[0] = static_cast<uint8_t>(value);
  to[1] = static_cast<uint8_t>(value >> 8);
}
inline uint16_t get_u16(const uint8_t* from) {
  return static_cast<uint16_t>(from[0] | from[1] << 8);
}
inline void put_u32(uint8_t* to, uint32_t value) {
  put_u16(to, static_cast<uint16_t>(value));
  put_u16(to + 2, static_cast<uint16_t>(value >> 16));
}
inline uint32_t get_u32(const uint8_t* from) {
  return get_u16(from) | static_cast<uint32_t>(get_u16(from + 2)) << 16;
}

}  // namespace tbccl::tcp
