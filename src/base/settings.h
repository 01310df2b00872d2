// The configuration table: every TBCCL_ variable, with its type, default and one line of
// documentation, in one place. Environment values are read by Settings::from_environment, fields
// of tbcclConfig_t override them.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "tbccl/tbccl.h"

namespace tbccl {

// Values of one communicator. Times are in nanoseconds; 0 means "no limit" for `timeout_ns`.
struct Settings {
  uint64_t timeout_ns = 600'000'000'000;         // TBCCL_TIMEOUT, seconds (fractions allowed)
  uint64_t connect_timeout_ns = 60'000'000'000;  // TBCCL_CONNECT_TIMEOUT, seconds
  bool deterministic = false;                    // TBCCL_DETERMINISTIC
  std::string algorithms;                        // TBCCL_ALGO
  std::string transports;                        // TBCCL_TRANSPORT
  std::string cabling;                           // TBCCL_CABLING
  std::string rendezvous;                        // TBCCL_RENDEZVOUS
  int rank = -1;                                 // TBCCL_RANK
  int size = -1;                                 // TBCCL_SIZE
  std::string launcher;                          // TBCCL_LAUNCHER
  std::string socket_interface;                  // TBCCL_SOCKET_IFNAME
  std::string port_range;                        // TBCCL_PORT_RANGE, "first-last"
  std::string secret;                            // TBCCL_SECRET
  std::string tuning;                            // TBCCL_TUNING
  std::string comm_name;
  tbcclTuner_t tuner = nullptr;
  void* tuner_context = nullptr;
  uint64_t spin_ns = 20'000;    // TBCCL_SPIN_US
  uint64_t yield_ns = 200'000;  // TBCCL_YIELD_US
  uint32_t segment_bytes = 0;   // TBCCL_SEGMENT, 0: the transport's best

  // Reads every TBCCL_ variable; a malformed value is InvalidArgument naming the variable, its
  // value and what would be right. Unknown TBCCL_ variables are warned about once a process.
  static Status from_environment(Settings* settings);
  // Applies the fields of `config` that are set (config may be NULL). InvalidArgument for a wrong
  // magic number or a value out of range.
  static Status apply(const tbcclConfig_t* config, Settings* settings);
  // The table as text: name, default, documentation.
  static std::string describe();
};

}  // namespace tbccl
