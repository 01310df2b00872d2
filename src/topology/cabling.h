// The cables that the user describes in the file named by TBCCL_CABLING:
//
//   {"cables": [{"ends": [{"rank": 0, "address": "10.100.0.1"},
//                         {"rank": 1, "address": "10.100.0.2"}], "rate": "100mbit"}]}
//
// The rate is optional: bit, kbit, mbit, gbit (a second, powers of 1000) or B, KB, MB, GB
// (bytes, likewise), "/s" allowed. Addresses are IPv4 or IPv6 literals, scoped ones
// ("fe80::1%en5") too.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace tbccl::topology {

struct CableEnd {
  int rank = 0;
  std::string address;
  bool operator==(const CableEnd&) const = default;
};

struct CableSpec {
  CableEnd a, b;
  double rate = 0;  // bytes per nanosecond, each direction; 0: not given
  bool operator==(const CableSpec&) const = default;
};

// InvalidArgument names the file, the cable's number from 0, and the field.
Status read_cabling(const std::string& path, int size, std::vector<CableSpec>* cables);
// The same from text; `source` stands for the file in messages.
Status parse_cabling(const std::string& text, const std::string& source, int size,
                     std::vector<CableSpec>* cables);
// "100mbit" and so on into bytes per nanosecond; false: not a rate.
bool parse_rate(const std::string& text, double* rate);

}  // namespace tbccl::topology
