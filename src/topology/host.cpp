#include "topology/host.h"

#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/formatted.h"

#ifdef __linux__
#include <sched.h>
#include <sys/stat.h>
#endif
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace tbccl::topology {
namespace {

constexpr size_t kMaxIdentity = 128;

#ifdef __APPLE__
std::string system_value(const char* name) {
  char value[128] = {};
  size_t bytes = sizeof value - 1;
  return sysctlbyname(name, value, &bytes, nullptr, 0) == 0 ? std::string(value) : std::string();
}
#endif

std::string read_identity() {
  std::string identity;
#ifdef __APPLE__
  identity = system_value("kern.uuid");
  // Virtual machines cloned from one image may share kern.uuid, but not the moment of their boot.
  identity += "/" + system_value("kern.bootsessionuuid");
#elif defined(__linux__)
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, identity);
  struct stat space = {};
  if (stat("/proc/self/ns/net", &space) == 0) {
    identity += formatted("/{}", static_cast<unsigned long>(space.st_ino));
  }
#endif
  // Without any of these the name is the best there is.
  if (identity.size() < 8) identity = host_name();
  if (identity.size() > kMaxIdentity) identity.resize(kMaxIdentity);
  return identity;
}

std::string read_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

}  // namespace

const std::string& host_identity() {
  static const std::string identity = read_identity();
  return identity;
}

int usable_cores() {
#ifdef __linux__
  // Machines with more than 1024 processors need a larger set than cpu_set_t.
  for (int limit = 1024; limit <= 65536; limit *= 2) {
    cpu_set_t* set = CPU_ALLOC(limit);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(limit);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
#endif
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : static_cast<int>(count);
}

const std::string& host_name() {
  static const std::string name = read_name();
  return name;
}

}  // namespace tbccl::topology
