#include "bootstrap/pmi.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "base/clock.h"
#include "base/formatted.h"
#include "base/numbers.h"
#include "bootstrap/timer.h"

namespace tbccl::bootstrap {
namespace {

constexpr size_t kLongestLine = 4096;
constexpr size_t kShortestValue = 16;  // shorter ones no key-value space has

Status wrong(std::string_view what) {
  return {tbcclSystemError,
          formatted("PMI_FD: {}; set TBCCL_RENDEZVOUS=host:port with mpiexec -genv to do without "
                    "the launcher",
                    what)};
}

// One conversation. Every request has one answer, in order.
class Pmi {
 public:
  Pmi(int file, uint64_t deadline_ns) : file_(file), deadline_ns_(deadline_ns) {}

  Status ask(const std::string& request, std::string_view answer, PmiWords* words) {
    if (Status s = send(request + "\n"); !s.ok()) return s;
    std::string line;
    if (Status s = receive(&line); !s.ok()) return s;
    if (!parse_pmi(line, words) || (*words)["cmd"] != answer) {
      return wrong(formatted("'{:.200}' was answered by '{:.200}'", request, line));
    }
    const auto rc = words->find("rc");
    if (rc == words->end() || rc->second == "0") return {};
    return wrong(formatted("'{:.200}' failed: '{:.200}'", request, line));
  }

 private:
  Status await(short what) {
    for (;;) {
      const uint64_t now = now_ns();
      if (now >= deadline_ns_) {
        return {tbcclTimeout,
                "PMI_FD: the launcher did not answer in time: some ranks have not "
                "called tbcclCommInitEnv"};
      }
      const uint64_t ms = std::min<uint64_t>((deadline_ns_ - now) / kMillisecond + 1, INT_MAX);
      pollfd entry{file_, what, 0};
      const int ready = poll(&entry, 1, static_cast<int>(ms));
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return broken();
    }
  }
  Status send(std::string_view text) {
    while (!text.empty()) {
      if (Status s = await(POLLOUT); !s.ok()) return s;
      const ssize_t n = ::write(file_, text.data(), text.size());
      if (n < 0 && errno != EINTR && errno != EAGAIN) return broken();
      if (n > 0) text.remove_prefix(static_cast<size_t>(n));
    }
    return {};
  }
  // Byte by byte: what follows the line may be another library's.
  Status receive(std::string* line) {
    while (line->size() < kLongestLine) {
      if (Status s = await(POLLIN); !s.ok()) return s;
      char c = 0;
      const ssize_t n = ::read(file_, &c, 1);
      if (n == 0) return wrong("the launcher closed it");
      if (n < 0 && errno != EINTR && errno != EAGAIN) return broken();
      if (n < 0) continue;
      if (c == '\n') return {};
      line->push_back(c);
    }
    return wrong("the launcher's answer has no end");
  }
  Status broken() const { return wrong(std::generic_category().message(errno)); }

  int file_;
  uint64_t deadline_ns_;
};

// MPI, if it is in this process, and has been started: the descriptor is its own then.
bool mpi_is_running() {
  using Initialized = int (*)(int*);
  const auto initialized = reinterpret_cast<Initialized>(dlsym(RTLD_DEFAULT, "MPI_Initialized"));
  int flag = 0;
  return initialized != nullptr && initialized(&flag) == 0 && flag != 0;
}

constexpr uint64_t kGoodbye = 2 * kSecond;

// Hydra kills the ranks of a job of which a process ends that has said init and not finalize. Said
// at the end of the process, because more communicators, or MPI, may need the launcher before.
class Goodbye {
 public:
  void remember(int file) {
    file_ = file;
    process_ = getpid();
  }
  ~Goodbye() {
    // A child of fork is no member; MPI, once started, says goodbye itself.
    if (file_ < 0 || process_ != getpid() || mpi_is_running()) return;
    PmiWords words;
    (void)Pmi(file_, after(kGoodbye)).ask("cmd=finalize", "finalize_ack", &words);
  }

 private:
  int file_ = -1;
  pid_t process_ = 0;
};

void say_goodbye_at_exit(int file) {
  static Goodbye goodbye;
  goodbye.remember(file);
}

std::string hex(const tbcclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) text += formatted("{:02x}", static_cast<unsigned char>(c));
  return text;
}

bool unhex(std::string_view text, tbcclUniqueId* id) {
  const auto value = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c - 'a' + 10; };
  const auto good = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() != 2 * sizeof id->internal || !std::all_of(text.begin(), text.end(), good)) {
    return false;
  }
  for (size_t i = 0; i < sizeof id->internal; ++i) {
    id->internal[i] = static_cast<char>(value(text[2 * i]) * 16 + value(text[2 * i + 1]));
  }
  return true;
}

// Long values go in as many keys as the space's longest value needs.
Status exchange(Pmi& pmi, unsigned number, const Settings& settings, Launch* launch) {
  PmiWords words;
  Status s = pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", &words);
  if (s.ok()) s = pmi.ask("cmd=get_maxes", "maxes", &words);
  if (!s.ok()) return s;
  // The longest value counts its terminating zero.
  const auto longest = parse_decimal(words["vallen_max"], 1, INT_MAX);
  if (!longest || *longest <= kShortestValue) return wrong("no usable vallen_max");
  const size_t part = std::min<size_t>(*longest - 1, 512);
  s = pmi.ask("cmd=get_my_kvsname", "my_kvsname", &words);
  if (!s.ok()) return s;
  const std::string space = words["kvsname"];
  const size_t length = 2 * sizeof launch->where.id.internal;
  const auto key = [&](size_t i) { return formatted("tbccl-{}-{}", number, i); };
  if (launch->rank == 0) {
    if (s = make_unique_id(settings, &launch->where.id); !s.ok()) return s;
    const std::string text = hex(launch->where.id);
    for (size_t i = 0; i * part < length; ++i) {
      s = pmi.ask(formatted("cmd=put kvsname={} key={} value={}", space, key(i),
                            text.substr(i * part, part)),
                  "put_result", &words);
      if (!s.ok()) return s;
    }
  }
  if (s = pmi.ask("cmd=barrier_in", "barrier_out", &words); !s.ok()) return s;
  if (launch->rank == 0) return {};
  std::string text;
  for (size_t i = 0; i * part < length; ++i) {
    s = pmi.ask(formatted("cmd=get kvsname={} key={}", space, key(i)), "get_result", &words);
    if (!s.ok()) return s;
    text += words["value"];
  }
  return unhex(text, &launch->where.id) ? Status() : wrong("rank 0's id came back damaged");
}

}  // namespace

bool parse_pmi(std::string_view line, PmiWords* words) {
  words->clear();
  while (!line.empty()) {
    if (line.front() == ' ') {
      line.remove_prefix(1);
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == 0 || equals == std::string_view::npos) return false;
    const std::string_view name = line.substr(0, equals);
    if (name.find(' ') != std::string_view::npos) return false;
    line.remove_prefix(equals + 1);
    size_t end = line.find(' ');
    // A message of several words ends before the next key=.
    while (name == "msg" && end != std::string_view::npos) {
      const std::string_view next = line.substr(end + 1, line.find(' ', end + 1) - end - 1);
      if (next.find('=') != std::string_view::npos) break;
      end = line.find(' ', end + 1);
    }
    (*words)[std::string(name)] = line.substr(0, end);
    line.remove_prefix(std::min(end, line.size()));
  }
  return words->count("cmd") == 1;
}

Status carry_by_pmi(const Lookup& lookup, const Settings& settings, unsigned number,
                    Launch* launch) {
  if (mpi_is_running()) {
    return {tbcclInvalidUsage,
            "MPI_Init has taken PMI_FD already: call tbcclCommInitEnv before MPI_Init, or "
            "tbcclCommInitRank with an id that MPI_Bcast carries"};
  }
  int file = -1;
  if (Status s = read_number(lookup, "PMI_FD", 0, INT_MAX, &file); !s.ok()) return s;
  say_goodbye_at_exit(file);
  Pmi pmi(file, after(settings.connect_timeout_ns));
  return exchange(pmi, number, settings, launch);
}

}  // namespace tbccl::bootstrap
