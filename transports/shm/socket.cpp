#include "shm/socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/formatted.h"
#include "base/shared_memory.h"
#include "tbccl/transport.h"

namespace tbccl::shm {
namespace {

constexpr int kBacklog = 128;
constexpr uint8_t kHandleVersion = 1;

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;  // the socket has SO_NOSIGPIPE
#endif

static_assert(kMaxNameBytes + 1 < sizeof(sockaddr_un{}.sun_path));
static_assert(1 + kMaxNameBytes <= TBCCL_HANDLE_MAX_BYTES);

socklen_t address_of(const std::string& name, sockaddr_un* address) {
  *address = sockaddr_un{};
  address->sun_family = AF_UNIX;
#ifdef __linux__
  const size_t skip = 1;  // an abstract name begins with a zero
#else
  const size_t skip = 0;
#endif
  std::memcpy(address->sun_path + skip, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + skip + name.size());
}

#ifndef __linux__

Descriptor prepared(int number) {
  Descriptor socket(number);
  if (number < 0) return socket;
  const int on = 1;
  fcntl(number, F_SETFD, FD_CLOEXEC);
  fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK);
  setsockopt(number, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
  return socket;
}

#endif

}  // namespace

std::string make_name(std::string* error) {
  std::array<uint8_t, 16> random{};
  random_bytes(random.data(), random.size());
  std::string name = "tbccl-";
  for (const uint8_t byte : random) name += formatted("{:02x}", byte);
#ifndef __linux__
  const char* directory = std::getenv("TMPDIR");
  if (directory == nullptr || *directory == '\0') directory = "/tmp";
  name = formatted("{}/{}", directory, name);
#endif
  if (name.size() > kMaxNameBytes) {
    *error = formatted(
        "{} is too long for a socket's name (at most {}): set TMPDIR to a shorter "
        "directory",
        name, kMaxNameBytes);
    return {};
  }
  return name;
}

void unlink_name(const std::string& name) {
#ifdef __linux__
  (void)name;
#else
  ::unlink(name.c_str());
#endif
}

std::vector<uint8_t> encode_handle(const std::string& name) {
  std::vector<uint8_t> handle(1 + name.size(), kHandleVersion);
  std::memcpy(handle.data() + 1, name.data(), name.size());
  return handle;
}

bool decode_handle(const void* handle, size_t bytes, std::string* name, std::string* error) {
  const auto* const data = static_cast<const uint8_t*>(handle);
  if (bytes < 2 || bytes > 1 + kMaxNameBytes || data[0] != kHandleVersion ||
      std::find(data + 1, data + bytes, 0) != data + bytes) {
    *error = formatted(
        "a handle of {} bytes does not come from this transport, or from another "
        "version of it: check that all ranks run the same version of the library",
        bytes);
    return false;
  }
  name->assign(reinterpret_cast<const char*>(data + 1), bytes - 1);
  return true;
}

Descriptor make_socket() {
#ifdef __linux__
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
#else
  return prepared(::socket(AF_UNIX, SOCK_STREAM, 0));
#endif
}

Descriptor make_listener(const std::string& name) {
  Descriptor socket = make_socket();
  if (!socket.open()) return socket;
  sockaddr_un address;
  const socklen_t bytes = address_of(name, &address);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    const int reason = errno;
    socket.reset();
    errno = reason;
  }
  return socket;
}

Descriptor accept_connection(int listener) {
  for (int attempt = 0; attempt < 8; ++attempt) {
#ifdef __linux__
    Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
#else
    Descriptor socket = prepared(accept(listener, nullptr, nullptr));
#endif
    // A connection that was reset before we came is not ours to report.
    if (socket.open() || (errno != EINTR && errno != ECONNABORTED)) return socket;
  }
  errno = EAGAIN;
  return {};
}

int connect_to(int socket, const std::string& name) {
  sockaddr_un address;
  const socklen_t bytes = address_of(name, &address);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return 0;
  return errno == EISCONN ? 0 : errno;
}

#ifdef __linux__

Peer identify(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return {};
  return {credentials.uid == geteuid(), credentials.pid == getpid(), credentials.pid};
}

#else

Peer identify(int socket) {
  uid_t user = 0;
  gid_t group = 0;
  if (getpeereid(socket, &user, &group) != 0) return {};
  Peer peer{user == geteuid(), false, 0};
#ifdef LOCAL_PEERPID
  pid_t process = 0;
  socklen_t bytes = sizeof process;
  if (getsockopt(socket, SOL_LOCAL, LOCAL_PEERPID, &process, &bytes) == 0) {
    peer.self = process == getpid();
    peer.process = process;
  }
#endif
  return peer;
}

#endif

ptrdiff_t send_bytes(int socket, const void* data, size_t bytes, const int* descriptors,
                     int count) {
  iovec part{const_cast<void*>(data), bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int) * kMaxPassed)] = {};
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = static_cast<decltype(message.msg_controllen)>(
        CMSG_SPACE(sizeof(int) * static_cast<size_t>(count)));
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len =
        static_cast<decltype(head->cmsg_len)>(CMSG_LEN(sizeof(int) * static_cast<size_t>(count)));
    std::memcpy(CMSG_DATA(head), descriptors, sizeof(int) * static_cast<size_t>(count));
  }
  for (int attempt = 0;; ++attempt) {
    const ptrdiff_t sent = ::sendmsg(socket, &message, kSendFlags);
    if (sent >= 0 || errno != EINTR || attempt == 8) return sent;
  }
}

ptrdiff_t receive_bytes(int socket, void* data, size_t bytes, std::vector<Descriptor>* descriptors,
                        bool* cut) {
  iovec part{data, bytes};
  msghdr message{};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int) * kMaxPassed)];
  ptrdiff_t received = -1;
  for (int attempt = 0; attempt <= 8; ++attempt) {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
#ifdef MSG_CMSG_CLOEXEC
    received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
#else
    received = ::recvmsg(socket, &message, 0);
#endif
    if (received >= 0 || errno != EINTR) break;
  }
  if (received < 0) return received;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(head) + i * sizeof number, sizeof number);
#ifndef MSG_CMSG_CLOEXEC
      fcntl(number, F_SETFD, FD_CLOEXEC);
#endif
      descriptors->emplace_back(number);
    }
  }
  *cut = *cut || (message.msg_flags & MSG_CTRUNC) != 0;
  return received;
}

bool try_again(int error) {
  // ENOBUFS: the socket's buffer (macOS).
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

bool out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ETOOMANYREFS;
}

}  // namespace tbccl::shm
