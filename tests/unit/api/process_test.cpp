// Ranks that are processes: this program again, with one of the hidden test cases below.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "support/ports.h"
#include "unit/api/job.h"
#include "unit/api/variables.h"
#ifdef __APPLE__
#include <crt_externs.h>
#include <mach-o/dyld.h>
#endif

namespace {

std::string last(tbcclComm_t comm) { return tbcclGetLastError(comm); }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#ifdef __APPLE__
std::string own_path() {
  char path[4096];
  uint32_t bytes = sizeof path;
  return _NSGetExecutablePath(path, &bytes) == 0 ? path : "";
}
char** environment() { return *_NSGetEnviron(); }
#else
std::string own_path() { return "/proc/self/exe"; }
char** environment() { return environ; }
#endif

// Starts a hidden test case; what it says on stderr goes to the file, if one is named.
pid_t start(const std::string& test, const std::string& errors) {
  const std::string path = own_path();
  char* arguments[] = {const_cast<char*>(path.c_str()), const_cast<char*>(test.c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  REQUIRE(posix_spawn_file_actions_init(&actions) == 0);
  if (!errors.empty()) {
    posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
  }
  pid_t child = 0;
  const int result = posix_spawn(&child, path.c_str(), &actions, nullptr, arguments, environment());
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(result == 0);
  return child;
}

// A directory of its own, for a few files.
class Folder {
 public:
  Folder() { REQUIRE(mkdtemp(path_) != nullptr); }
  ~Folder() {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) {
    files_.push_back(std::string(path_) + "/" + name);
    return files_.back();
  }

 private:
  char path_[64] = "/tmp/tbccl-unit-api-XXXXXX";
  std::vector<std::string> files_;
};

}  // namespace

// Not a test: what the process of the next one does. It ends in the middle.
TEST_CASE("a process that fails and exits", "[.]") {
  tbcclComm_t comm = nullptr;
  const tbcclResult_t result = tbcclCommInitEnv(&comm, nullptr);
  INFO(tbcclGetLastError(nullptr));
  REQUIRE(result == tbcclSuccess);
  int32_t word = 0;
  REQUIRE(tbcclRecv(&word, 1, tbcclInt32, 0, 0, comm, nullptr) == tbcclSuccess);
  if (std::getenv("TBCCL_TESTS_DESTROY") != nullptr) {
    tbcclCommAbort(comm);
    tbcclCommDestroy(comm);
  } else {
    tbcclCommAbort(comm);
  }
  std::exit(0);
}

TEST_CASE("why a process failed reaches the others, though it exits at once") {
  const bool destroy = GENERATE(false, true);
  for (int round = 0; round < 3; ++round) {
    // A port that was free an instant ago; another is tried if it is not any more.
    tbcclComm_t comm = nullptr;
    pid_t child = 0;
    tbcclResult_t made = tbcclSystemError;
    for (int attempt = 0; attempt < 5 && made == tbcclSystemError; ++attempt) {
      const std::string where = "127.0.0.1:" + std::to_string(free_port());
      Variables variables{{"TBCCL_RENDEZVOUS", where.c_str()},
                          {"TBCCL_SIZE", "2"},
                          {"TBCCL_RANK", "1"},
                          {"TBCCL_TESTS_DESTROY", "1"}};
      if (!destroy) unsetenv("TBCCL_TESTS_DESTROY");
      child = start("a process that fails and exits", "");
      setenv("TBCCL_RANK", "0", 1);
      made = tbcclCommInitEnv(&comm, nullptr);
      if (made == tbcclSystemError) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
      }
    }
    INFO(last(nullptr));
    REQUIRE(made == tbcclSuccess);
    // It has this word before it ends; whether the send still learns of that is open.
    const int32_t word = 1;
    const tbcclResult_t sent = tbcclSend(&word, 1, tbcclInt32, 1, 0, comm, nullptr);
    CHECK((sent == tbcclSuccess || sent == tbcclAborted));
    CHECK(tbcclBarrier(comm, nullptr) == tbcclAborted);
    CHECK(has(last(comm), "rank 1 aborted the communicator"));
    CHECK(tbcclCommDestroy(comm) == tbcclSuccess);
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

// Not a test: nobody comes to the rendezvous of this process.
TEST_CASE("a process whose rendezvous fails and that exits", "[.]") {
  tbcclUniqueId id;
  REQUIRE(tbcclGetUniqueId(&id) == tbcclSuccess);
  tbcclComm_t comm = nullptr;
  REQUIRE(tbcclCommInitRank(&comm, 2, id, 0) == tbcclTimeout);
  std::exit(0);
}

TEST_CASE("a process exits after a rendezvous that failed, whichever thread ends it") {
  const Variables variables{{"TBCCL_CONNECT_TIMEOUT", "1"}};
  std::vector<pid_t> children;
  for (int i = 0; i < 12; ++i) {
    children.push_back(start("a process whose rendezvous fails and that exits", ""));
  }
  for (const pid_t child : children) {
    int status = -1;
    pid_t ended = 0;
    for (int i = 0; i < 3000 && ended == 0; ++i) {
      ended = waitpid(child, &status, WNOHANG);
      if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(ended == child);
    CHECK(status == 0);
    if (ended == 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
}

// Not a test: traffic over the cable that a file describes.
TEST_CASE("a process with a cable that carries less than is stated", "[.]") {
  Job job(2);
  const size_t count = 16u << 20;
  for (int round = 0; round < 2; ++round) {
    job.each([&](int, tbcclComm_t comm, Findings& found) {
      std::vector<float> data(count, 1);
      found.expect(tbcclAllReduce(data.data(), data.data(), count, tbcclFloat32, tbcclSum, comm,
                                  nullptr) == tbcclSuccess,
                   last(comm));
      found.expect(data[count - 1] == 2, "the sum is wrong");
    });
  }
}

TEST_CASE("a stated rate that is far from what a cable carries is warned of, once a trunk") {
  Folder folder;
  const bool stated = GENERATE(true, false);
  const std::string cabling = folder.file("cabling.json"), errors = folder.file("errors");
  std::ofstream(cabling) << R"({"cables":[{"ends":[{"rank":0,"address":"127.0.0.1"},)"
                         << R"({"rank":1,"address":"127.0.0.1"}])"
                         << (stated ? R"(,"rate":"9000gbit")" : "") << "}]}";
  const Variables variables{{"TBCCL_CABLING", cabling.c_str()}, {"TBCCL_DEBUG", "WARN"}};
  const pid_t child = start("a process with a cable that carries less than is stated", errors);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  std::stringstream said;
  said << std::ifstream(errors).rdbuf();
  const std::string text = said.str();
  INFO(text);
  const std::string warning = "that algorithms are chosen by";
  for (const char* rank : {"rank 0: trunk tcp", "rank 1: trunk tcp"}) {
    const size_t at = text.find(rank);
    CHECK((at != std::string::npos) == stated);
    if (stated) CHECK(text.find(rank, at + 1) == std::string::npos);
  }
  CHECK(has(text, warning) == stated);
}
