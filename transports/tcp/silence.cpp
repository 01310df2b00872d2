#include "tcp/silence.h"

#include <sys/socket.h>

#ifdef __linux__
#include <linux/tcp.h>  // its tcp_info is complete; netinet/tcp.h must not be included here
#include <netinet/in.h>
#endif

namespace tbccl::tcp {

#ifdef __linux__

bool Silence::dead(int socket, uint64_t now) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  outstanding_ = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
  const bool unanswered = info.tcpi_unacked > 0 &&
                          info.tcpi_last_ack_recv > info.tcpi_last_data_sent &&
                          info.tcpi_bytes_acked == acknowledged_;
  acknowledged_ = info.tcpi_bytes_acked;
  // After a long pause of this process (a suspended host) what the kernel says about the past
  // proves nothing: begin anew.
  const bool paused = now - ticked_ > 3 * kTickNs;
  ticked_ = now;
  if (!unanswered) {
    since_ = 0;
    return false;
  }
  if (since_ == 0 || paused) since_ = now;
  return info.tcpi_retransmits > 0 && now - since_ >= kLimitNs;
}

#else

bool Silence::dead(int, uint64_t) {
  outstanding_ = false;
  return false;
}

#endif

}  // namespace tbccl::tcp
