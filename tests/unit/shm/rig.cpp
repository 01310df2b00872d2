#include "rig.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "base/clock.h"

namespace rig {
namespace {

constexpr uint64_t kPatience = 60'000'000'000;

int entries_of(const char* folder, const char* beginning = "") {
  int count = 0;
  DIR* directory = opendir(folder);
  if (directory == nullptr) return 0;
  while (const dirent* entry = readdir(directory)) {
    if (std::strncmp(entry->d_name, beginning, std::strlen(beginning)) == 0) ++count;
  }
  closedir(directory);
  return count;
}

Side& me(void* self) { return *static_cast<Side*>(self); }
Peer& at(void* user) { return *static_cast<Peer*>(user); }

}  // namespace

int open_descriptors() {
#ifdef __linux__
  return entries_of("/proc/self/fd");
#else
  return entries_of("/dev/fd");
#endif
}

int our_mappings() {
  int count = 0;
  FILE* maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return 0;
  char line[1024];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    if (std::strstr(line, "memfd:tbccl") != nullptr) ++count;
  }
  std::fclose(maps);
  return count;
}

int files_in_dev_shm() { return entries_of("/dev/shm", "tbccl"); }

Header header_of(uint64_t number) {
  Header header;
  for (size_t i = 0; i < header.size(); ++i) header[i] = pattern(number ^ 0x5555, i);
  std::memcpy(header.data(), &number, sizeof number);
  return header;
}

Bytes payload_of(uint64_t number, uint32_t length) {
  Bytes payload(length);
  for (uint32_t i = 0; i < length; ++i) payload[i] = pattern(number, i);
  return payload;
}

bool is_frame(uint64_t number, const void* header, const void* payload, uint32_t length) {
  const Header right = header_of(number);
  if (std::memcmp(header, right.data(), right.size()) != 0) return false;
  const auto* bytes = static_cast<const uint8_t*>(payload);
  for (uint32_t i = 0; i < length; ++i) {
    if (bytes[i] != pattern(number, i)) return false;
  }
  return true;
}

Side::Side() {
  callbacks_.size = sizeof callbacks_;
  callbacks_.self = this;
  callbacks_.incoming = [](void* self, tbcclTrunk_t* trunk, const void* hello, size_t hello_bytes,
                           void* reply, size_t* reply_bytes, void** user) {
    return me(self).incoming(trunk, hello, hello_bytes, reply, reply_bytes, user);
  };
  callbacks_.up = [](void* self, void* user, const void* reply, size_t bytes) {
    Peer& peer = at(user);
    peer.up = true;
    peer.reply.assign(static_cast<const char*>(reply), bytes);
    return me(self).on_up ? me(self).on_up(peer) : 1;
  };
  callbacks_.down = [](void* self, void* user, int gone, const char* text) {
    Peer& peer = at(user);
    if (peer.down) me(self).wrong = "down() came twice";
    peer.down = true;
    peer.gone = gone;
    peer.text = text;
    if (me(self).on_down) me(self).on_down(peer);
  };
  callbacks_.deliver = [](void* self, void* user, const void* header, const void* payload,
                          uint32_t length) {
    if (me(self).on_deliver) return me(self).on_deliver(at(user), header, payload, length);
    Frame frame;
    std::memcpy(frame.header.data(), header, frame.header.size());
    const auto* bytes = static_cast<const uint8_t*>(payload);
    frame.payload.assign(bytes, bytes + length);
    at(user).frames.push_back(std::move(frame));
  };
  callbacks_.sent = [](void* self, void* user, uint64_t token) {
    at(user).sent.push_back(token);
    if (me(self).on_sent) me(self).on_sent(at(user), token);
  };
  callbacks_.writable = [](void* self, void* user) {
    ++at(user).writable;
    if (me(self).on_writable) me(self).on_writable(at(user));
  };
  callbacks_.watch = [](void* self, int descriptor, int events) {
    auto& watched = me(self).watched;
    if (events != 0) {
      watched[descriptor] = events;
    } else if (watched.erase(descriptor) != 1) {
      me(self).wrong = "a descriptor was forgotten that was never watched";
    }
  };
  callbacks_.log = [](void* self, int, const char* text) { me(self).logged.emplace_back(text); };
  char error[512] = "";
  if (api().open(&callbacks_, error, sizeof error, &context_) != TBCCL_OK) wrong = error;
}

void Side::close() {
  if (context_ == nullptr) return;
  api().close(context_);
  context_ = nullptr;
  if (!watched.empty()) wrong = "descriptors are watched that are closed";
}

Bytes Side::listen() {
  Bytes handle(TBCCL_HANDLE_MAX_BYTES);
  size_t bytes = 0;
  char error[512] = "";
  if (api().listen(context_, "127.0.0.1", handle.data(), &bytes, error, sizeof error) != TBCCL_OK) {
    wrong = error;
  }
  handle.resize(bytes);
  return handle;
}

Peer& Side::connect(const Bytes& handle, const std::string& hello, uint32_t timeout_ms) {
  Peer& peer = add_peer();
  char error[512] = "";
  if (api().connect(context_, nullptr, handle.data(), handle.size(), hello.data(), hello.size(),
                    timeout_ms, &peer, &peer.trunk, error, sizeof error) != TBCCL_OK) {
    wrong = error;
  }
  return peer;
}

tbcclTransportCode_t Side::send(Peer& peer, uint64_t number, const void* payload, uint32_t length) {
  return api().send(context_, peer.trunk, header_of(number).data(), payload, length, number);
}

tbcclBoard_t Side::board(Peer& peer) {
  tbcclBoard_t board{};
  if (api().board(context_, peer.trunk, &board) == 0) board = {};
  return board;
}

int Side::incoming(tbcclTrunk_t* trunk, const void* hello, size_t hello_bytes, void* reply,
                   size_t* reply_bytes, void** user) {
  hellos.emplace_back(static_cast<const char*>(hello), hello_bytes);
  if (!refuse.empty() && hellos.back() == refuse) return 0;
  Peer& peer = add_peer();
  peer.trunk = trunk;
  std::memcpy(reply, answer.data(), answer.size());
  *reply_bytes = answer.size();
  *user = &peer;
  return 1;
}

bool pump(std::initializer_list<Side*> sides, const std::function<bool()>& done) {
  const uint64_t limit = tbccl::now_ns() + kPatience;
  while (!done()) {
    int happened = 0;
    for (Side* side : sides) {
      if (side->context() != nullptr) happened += side->poll();
    }
    if (happened == 0) {
      if (tbccl::now_ns() > limit) return false;
      std::this_thread::yield();
    }
  }
  return true;
}

bool sleep_until(Side& side, const std::function<bool()>& done) {
  while (!done()) {
    if (side.poll() > 0) continue;
    Side::api().sleeping(side.context(), 1);
    if (side.poll() == 0 && !done()) {
      std::vector<pollfd> entries;
      for (const auto& [descriptor, events] : side.watched) {
        const int wanted = (events & 1 ? POLLIN : 0) | (events & 2 ? POLLOUT : 0);
        entries.push_back({descriptor, static_cast<short>(wanted), 0});
      }
      if (::poll(entries.data(), static_cast<nfds_t>(entries.size()), 60'000) <= 0) return false;
    }
    Side::api().sleeping(side.context(), 0);
  }
  return true;
}

Child::Child(const std::function<int(Child&)>& work) {
  int down[2], up[2];
  if (::pipe(down) != 0 || ::pipe(up) != 0) return;
  process_ = fork();
  const bool inside = process_ == 0;
  in_ = inside ? down[0] : up[0];
  out_ = inside ? up[1] : down[1];
  ::close(inside ? down[1] : up[1]);
  ::close(inside ? up[0] : down[0]);
  if (inside) _exit(work(*this));
}

Child::~Child() {
  kill();
  ::close(in_);
  ::close(out_);
}

bool Child::say(const void* data, size_t bytes) const {
  const auto* from = static_cast<const char*>(data);
  for (size_t done = 0; done < bytes;) {
    const ssize_t wrote = ::write(out_, from + done, bytes - done);
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

bool Child::hear(void* data, size_t bytes) const {
  for (size_t done = 0; done < bytes;) {
    pollfd entry{in_, POLLIN, 0};
    if (::poll(&entry, 1, 60'000) <= 0) return false;
    const ssize_t got = ::read(in_, static_cast<char*>(data) + done, bytes - done);
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool Child::say(const Bytes& handle) const {
  const uint64_t bytes = handle.size();
  return say(&bytes, sizeof bytes) && say(handle.data(), handle.size());
}

Bytes Child::hear_handle() const {
  uint64_t bytes = 0;
  if (!hear(&bytes, sizeof bytes) || bytes > TBCCL_HANDLE_MAX_BYTES) return {};
  Bytes handle(bytes);
  if (!hear(handle.data(), handle.size())) handle.clear();
  return handle;
}

void Child::kill() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
}

int Child::wait() {
  int status = -1;
  const pid_t ended = ::waitpid(process_, &status, 0);
  process_ = -1;
  return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace rig
