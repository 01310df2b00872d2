// libFuzzer: a whole listening context over loopback. If the first byte is odd, a right hello
// precedes the input, so that it is read as frames; otherwise it takes the hello's place.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tcp/address.h"
#include "tcp/greeting.h"
#include "tcp/tcp.h"

namespace {

struct Listener {
  tbcclTransportContext_t* context = nullptr;
  tbccl::tcp::Endpoint endpoint;
  int accepted = 0, ended = 0;
  std::vector<uint8_t> placed;
};

void require(bool condition) {
  if (!condition) __builtin_trap();
}

Listener& me(void* self) { return *static_cast<Listener*>(self); }

tbcclTransportCallbacks_t callbacks_for(Listener* listener) {
  tbcclTransportCallbacks_t callbacks{};
  callbacks.size = sizeof callbacks;
  callbacks.self = listener;
  callbacks.incoming = [](void* self, tbcclTrunk_t*, const void*, size_t bytes, void*,
                          size_t* reply, void**) {
    require(bytes <= TBCCL_HELLO_MAX_BYTES);
    *reply = 0;
    ++me(self).accepted;
    return 1;
  };
  callbacks.up = [](void*, void*, const void*, size_t) { return 1; };
  callbacks.down = [](void* self, void*, int, const char*) { ++me(self).ended; };
  callbacks.place = [](void* self, void*, const void*, uint32_t length) {
    me(self).placed.resize(length);
    return static_cast<void*>(me(self).placed.data());
  };
  callbacks.progress = [](void*, void*, const void*, uint32_t, uint32_t) {};
  callbacks.sent = [](void*, void*, uint64_t) {};
  callbacks.writable = [](void*, void*) {};
  return callbacks;
}

Listener& listener() {
  static Listener* const made = [] {
    auto* fresh = new Listener;
    const auto callbacks = callbacks_for(fresh);
    const tbcclTransport_t& api = *tbccl::tcp::transport();
    char error[256];
    uint8_t handle[TBCCL_HANDLE_MAX_BYTES];
    size_t bytes = 0;
    require(api.open(&callbacks, error, sizeof error, &fresh->context) == TBCCL_OK);
    require(api.listen(fresh->context, "127.0.0.1", handle, &bytes, error, sizeof error) ==
            TBCCL_OK);
    std::string reason;
    require(tbccl::tcp::decode_handle(handle, bytes, &fresh->endpoint, &reason));
    return fresh;
  }();
  return *made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  Listener& side = listener();
  std::vector<uint8_t> stream;
  if (data[0] & 1) stream = tbccl::tcp::make_greeting(tbccl::tcp::kHelloMagic, "hello", 5);
  stream.insert(stream.end(), data + 1, data + bytes);

  const int peer = socket(AF_INET, SOCK_STREAM, 0);
  require(connect(peer, side.endpoint.data(), static_cast<socklen_t>(side.endpoint.size())) == 0);
  // No connection is left behind in TIME_WAIT.
  const linger hard{1, 0};
  setsockopt(peer, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  const int accepted = side.accepted, ended = side.ended;
  for (size_t at = 0; at < stream.size();) {
    const ptrdiff_t written =
        send(peer, stream.data() + at, stream.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0 && errno != EAGAIN) break;
    if (written > 0) at += static_cast<size_t>(written);
    tbccl::tcp::transport()->poll(side.context);
  }
  shutdown(peer, SHUT_WR);
  // Whatever came, the listener lets go of it.
  char byte;
  for (;;) {
    tbccl::tcp::transport()->poll(side.context);
    const ptrdiff_t count = recv(peer, &byte, 1, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) break;
  }
  close(peer);
  require(side.accepted - accepted <= 1);
  require(side.ended - ended == side.accepted - accepted);
  return 0;
}
