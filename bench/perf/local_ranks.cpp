#include "local_ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/formatted.h"
#include "base/status.h"
#include "sweep.h"

#ifdef __linux__
#include <sys/prctl.h>
#else
#include <mach-o/dyld.h>
#include <sys/event.h>

#include <thread>
#endif

extern char** environ;

namespace tbccl::perf {
namespace {

constexpr uint64_t kGrace = 10'000'000'000;  // for the others, after one rank has failed

// A port nobody uses, on the loopback interface. The socket stays bound (not listening), so that
// nobody else is given the port; rank 0 may listen there all the same, because both allow the
// address to be reused.
Status reserve_port(int* file, int* port) {
  *file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const int yes = 1;
  if (*file < 0 || fcntl(*file, F_SETFD, FD_CLOEXEC) != 0 ||
      setsockopt(*file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(*file, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(*file, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return {tbcclSystemError, formatted("no free port on 127.0.0.1: {}", std::strerror(errno))};
  }
  *port = ntohs(address.sin_port);
#ifndef __linux__
  close(*file);  // elsewhere a bound socket would keep rank 0 from listening
  *file = -1;
#endif
  return {};
}

std::string own_path(const char* argv0) {
#ifdef __linux__
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length > 0) return {path.data(), static_cast<size_t>(length)};
#else
  std::array<char, 4096> path;
  uint32_t length = path.size();
  if (_NSGetExecutablePath(path.data(), &length) == 0) return path.data();
#endif
  return argv0;
}

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become_rank(const std::string& path, char* const* arguments,
                              char* const* environment) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  execve(path.c_str(), arguments, environment);
  _exit(127);
}

// The environment of one rank: ours, but for what describes the job.
std::vector<std::string> rank_environment(int rank, int ranks, int port) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool replaced = text.starts_with("TBCCL_RANK=") || text.starts_with("TBCCL_SIZE=") ||
                          text.starts_with("TBCCL_RENDEZVOUS=");
    if (!replaced) all.push_back(text);
  }
  all.push_back(formatted("TBCCL_RANK={}", rank));
  all.push_back(formatted("TBCCL_SIZE={}", ranks));
  all.push_back(formatted("TBCCL_RENDEZVOUS=127.0.0.1:{}", port));
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

struct Rank {
  pid_t pid = -1;
  bool running = false;
};

class LocalJob {
 public:
  ~LocalJob() { end_all(); }

  Status start(int ranks, int argc, char** argv) {
    int held = -1;
    int port = 0;
    Status status = reserve_port(&held, &port);
    held_ = held;
    if (!status.ok()) return status;
    const std::string path = own_path(argv[0]);
    std::vector<std::string> arguments(argv, argv + argc);
    arguments.push_back(formatted("--child={}", getpid()));
    std::fflush(nullptr);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> environment = rank_environment(rank, ranks, port);
      const std::vector<char*> argument_pointers = pointers(arguments);
      const std::vector<char*> environment_pointers = pointers(environment);
      const pid_t pid = fork();
      if (pid == 0) become_rank(path, argument_pointers.data(), environment_pointers.data());
      if (pid < 0) {
        return {tbcclSystemError,
                formatted("cannot start rank {}: {}", rank, std::strerror(errno))};
      }
      ranks_.push_back({pid, true});
    }
    return {};
  }

  // Until every rank has ended; the first exit status that is not zero.
  int wait() {
    uint64_t deadline = kNever;
    size_t left = ranks_.size();
    while (left > 0) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, deadline == kNever ? 0 : WNOHANG);
      if (pid > 0) {
        left -= take(pid, status) ? 1 : 0;
        if (result_ != 0 && deadline == kNever) deadline = now_ns() + kGrace;
        continue;
      }
      if (pid < 0 && errno != EINTR) break;
      if (deadline != kNever && now_ns() > deadline) {
        fmt::print(stderr, "tbccl-perf: {} other ranks have not ended; ending them\n", left);
        break;
      }
      if (pid == 0) usleep(10'000);
    }
    end_all();
    return result_;
  }

 private:
  // False: not one of ours.
  bool take(pid_t pid, int status) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].pid != pid || !ranks_[rank].running) continue;
      ranks_[rank].running = false;
      note(rank, status);
      return true;
    }
    return false;
  }

  void note(size_t rank, int status) {
    const int pid = static_cast<int>(ranks_[rank].pid);
    int code = 0;
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      fmt::print(stderr, "tbccl-perf: rank {} (pid {}) was ended by signal {} ({})\n", rank, pid,
                 signal, strsignal(signal));
      code = kExitError;
    } else if (WEXITSTATUS(status) != 0) {
      code = WEXITSTATUS(status);
      fmt::print(stderr, "tbccl-perf: rank {} (pid {}) ended with exit status {}\n", rank, pid,
                 code);
    }
    if (result_ == 0) result_ = code;
  }

  void end_all() {
    for (Rank& rank : ranks_) {
      if (!rank.running) continue;
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
      rank.running = false;
    }
    if (held_ >= 0) close(held_);
    held_ = -1;
  }

  std::vector<Rank> ranks_;
  int held_ = -1;
  int result_ = 0;
};

}  // namespace

int run_local_ranks(int ranks, int argc, char** argv) {
  LocalJob job;
  const Status status = job.start(ranks, argc, argv);
  if (status.ok()) return job.wait();
  fmt::print(stderr, "tbccl-perf: {}\n", status.text());
  return kExitError;
}

void follow_parent(int parent) {
#ifdef __linux__
  // The signal was asked for before exec; the parent may have been gone already.
  if (getppid() != parent) _exit(kExitError);
#else
  std::thread([parent] {
    const int queue = kqueue();
    struct kevent change, event;
    EV_SET(&change, static_cast<uintptr_t>(parent), EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, nullptr);
    if (queue >= 0 && kevent(queue, &change, 1, &event, 1, nullptr) >= 0) _exit(kExitError);
    if (getppid() != parent) _exit(kExitError);
  }).detach();
#endif
}

}  // namespace tbccl::perf
