#include "rig.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "tcp/address.h"

namespace rig {

bool sleep_until(Side& side, const std::function<bool()>& done) {
  while (!done()) {
    if (side.poll() > 0) continue;
    std::vector<pollfd> entries;
    for (const auto& [descriptor, events] : side.watched) {
      const int wanted = (events & 1 ? POLLIN : 0) | (events & 2 ? POLLOUT : 0);
      entries.push_back({descriptor, static_cast<short>(wanted), 0});
    }
    if (poll(entries.data(), static_cast<nfds_t>(entries.size()), 60'000) <= 0) return false;
  }
  return true;
}

int stranger(const Bytes& handle) {
  tbccl::tcp::Endpoint endpoint;
  std::string error;
  REQUIRE(tbccl::tcp::decode_handle(handle.data(), handle.size(), &endpoint, &error));
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(descriptor >= 0);
  REQUIRE(connect(descriptor, endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0);
  return descriptor;
}

bool ends(int socket) {
  for (;;) {
    pollfd entry{socket, POLLIN, 0};
    if (poll(&entry, 1, 0) == 0) return false;
    char bytes[4096];
    if (recv(socket, bytes, sizeof bytes, MSG_DONTWAIT) <= 0) return true;
  }
}

}  // namespace rig
