// Notices a path that drops everything without a word, within a second, where bytes are
// outstanding.
//
// TCP_USER_TIMEOUT does not do: since Linux 5.11 it also ends connections whose peer answers but
// has a closed window, which is what a stopped process looks like. So the kernel's own account is
// read: bytes are in flight, none was acknowledged, and the last transmission had no answer. A
// peer whose kernel answers, even with a closed window, is never silent. (macOS has
// TCP_RXT_CONNDROPTIME, which counts retransmissions only: set in socket.cpp.)
#pragma once

#include <cstdint>

namespace tbccl::tcp {

class Silence {
 public:
  // To be called about every kTickNs, with some of them missed at will. True: dead.
  bool dead(int socket, uint64_t now);
  // Found by the last dead(): whether bytes are unsent or unacknowledged.
  bool outstanding() const { return outstanding_; }

  static constexpr uint64_t kTickNs = 100'000'000;
  static constexpr uint64_t kLimitNs = 400'000'000;  // after the first silent tick

 private:
  bool outstanding_ = false;
  [[maybe_unused]] uint64_t since_ = 0;  // first tick of the present silence; 0: none
  [[maybe_unused]] uint64_t ticked_ = 0;
  [[maybe_unused]] uint64_t acknowledged_ = 0;
};

}  // namespace tbccl::tcp
