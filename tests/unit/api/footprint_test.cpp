// What a communicator costs: resident memory of a process that is one rank of four, after it was
// made, and what a large collective adds to it.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/ports.h"
#include "tbccl/tbccl.h"
#include "unit/api/variables.h"
#include "unit/catch.h"

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMostBefore = 16 * kMiB;  // of a communicator of four ranks
constexpr int64_t kMostScratch = 4 * kMiB;  // a few segments of 256 KiB for each of three peers
constexpr size_t kCount = 16 << 20;         // 64 MiB of float

int64_t resident() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return -1;
  long size = 0, pages = 0;
  const int read = std::fscanf(file, "%ld %ld", &size, &pages);
  std::fclose(file);
  return read == 2 ? pages * sysconf(_SC_PAGESIZE) : -1;
}

}  // namespace

// Not a test: a rank of the next one. What it finds is its exit status.
TEST_CASE("a process that weighs itself", "[.]") {
  std::vector<float> values(kCount, 1);
  const int64_t before = resident();
  tbcclComm_t comm = nullptr;
  if (tbcclCommInitEnv(&comm, nullptr) != tbcclSuccess) std::_Exit(2);
  float sum = 1;
  if (tbcclAllReduce(&sum, &sum, 1, tbcclFloat32, tbcclSum, comm, nullptr) != tbcclSuccess) {
    std::_Exit(3);
  }
  const int64_t made = resident();
  for (int i = 0; i < 2; ++i) {
    if (tbcclAllReduce(values.data(), values.data(), kCount, tbcclFloat32, tbcclSum, comm,
                       nullptr) != tbcclSuccess) {
      std::_Exit(4);
    }
  }
  const int64_t used = resident();
  for (float value : values) {
    if (value != 16) std::_Exit(5);
  }
  std::fprintf(stderr, "communicator %.2f MiB, scratch %.2f MiB\n",
               static_cast<double>(made - before) / kMiB, static_cast<double>(used - made) / kMiB);
  tbcclCommDestroy(comm);
  if (made - before >= kMostBefore) std::_Exit(6);
  std::_Exit(used - made >= kMostScratch ? 7 : 0);
}

TEST_CASE("a communicator and its collectives cost little memory") {
  const char* const transports = GENERATE("shm", "tcp");
  // A port that was free an instant ago; another is tried if it is not any more.
  bool met = false;
  for (int attempt = 0; attempt < 5 && !met; ++attempt) {
    const std::string where = "127.0.0.1:" + std::to_string(free_port());
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string number = std::to_string(rank);
      Variables variables{{"TBCCL_RENDEZVOUS", where.c_str()},
                          {"TBCCL_SIZE", "4"},
                          {"TBCCL_RANK", number.c_str()},
                          {"TBCCL_TRANSPORT", transports},
                          {"TBCCL_CONNECT_TIMEOUT", "60"}};
      const char* const arguments[] = {"/proc/self/exe", "a process that weighs itself", nullptr};
      pid_t child = 0;
      REQUIRE(posix_spawn(&child, arguments[0], nullptr, nullptr,
                          const_cast<char* const*>(arguments), environ) == 0);
      ranks.push_back(child);
    }
    met = true;
    for (pid_t rank : ranks) {
      int status = 0;
      REQUIRE(waitpid(rank, &status, 0) == rank);
      REQUIRE(WIFEXITED(status));
      if (WEXITSTATUS(status) == 2) {
        met = false;
        continue;
      }
      INFO(transports << ": 6: the communicator, 7: the scratch is too large");
      CHECK(WEXITSTATUS(status) == 0);
    }
  }
  REQUIRE(met);
}

#endif
