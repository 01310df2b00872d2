// Ways of making a communicator, and what is left when it is gone.
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "team.h"
#include "unit/catch.h"

using namespace integration;

namespace {

// Entries of a folder of /proc; -1 where there is none.
int entries(const char* folder) {
  DIR* directory = opendir(folder);
  if (directory == nullptr) return -1;
  int count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

int open_descriptors() { return entries("/proc/self/fd"); }
int running_threads() { return entries("/proc/self/task"); }

// Threads end a moment after they have been joined, as the kernel sees it.
bool settles(int (*count)(), int wanted) {
  for (int i = 0; i < 2000; ++i) {
    if (count() <= wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// A port of 127.0.0.1 that nobody else is given while this exists.
class Port {
 public:
  Port() : file_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int yes = 1;
    setsockopt(file_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address_);
    bound_ = bind(file_, reinterpret_cast<sockaddr*>(&address_), length) == 0 &&
             getsockname(file_, reinterpret_cast<sockaddr*>(&address_), &length) == 0;
  }
  ~Port() { close(file_); }
  bool bound() const { return bound_; }
  std::string text() const { return "127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }

 private:
  int file_;
  sockaddr_in address_{};
  bool bound_ = false;
};

}  // namespace

TEST_CASE("One thread drives all communicators of tbcclCommInitAll with groups") {
  constexpr int kRanks = 4;
  Team team(kRanks);
  REQUIRE(team.result() == tbcclSuccess);
  for (size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{300'000}}) {
    std::vector<std::vector<int64_t>> values(kRanks);
    REQUIRE(tbcclGroupStart() == tbcclSuccess);
    for (int rank = 0; rank < kRanks; ++rank) {
      auto& mine = values[static_cast<size_t>(rank)];
      for (size_t i = 0; i < count; ++i) mine.push_back(static_cast<int64_t>(i) * (rank + 1));
      REQUIRE(tbcclAllReduce(mine.data(), mine.data(), count, tbcclInt64, tbcclSum, team[rank],
                             nullptr) == tbcclSuccess);
    }
    REQUIRE(tbcclGroupEnd() == tbcclSuccess);
    for (const auto& mine : values) {
      for (size_t i = 0; i < count; ++i) {
        if (mine[i] != static_cast<int64_t>(i) * 10) FAIL("element " << i << " is " << mine[i]);
      }
    }
  }
}

TEST_CASE("Requests of a group are valid from its end on") {
  Team team(2);
  REQUIRE(team.result() == tbcclSuccess);
  const int sent = 42;
  int received = 0;
  tbcclRequest_t requests[2] = {};
  REQUIRE(tbcclGroupStart() == tbcclSuccess);
  REQUIRE(tbcclSend(&sent, 1, tbcclInt32, 1, 7, team[0], &requests[0]) == tbcclSuccess);
  REQUIRE(tbcclRecv(&received, 1, tbcclInt32, TBCCL_ANY_SOURCE, 7, team[1], &requests[1]) ==
          tbcclSuccess);
  REQUIRE(tbcclGroupEnd() == tbcclSuccess);
  REQUIRE(tbcclWaitAll(2, requests, 60'000) == tbcclSuccess);
  REQUIRE(received == 42);
  int source = -1;
  REQUIRE(tbcclRequestSource(requests[1], &source) == tbcclSuccess);
  REQUIRE(source == 0);
  for (tbcclRequest_t& request : requests) {
    REQUIRE(tbcclRequestFree(&request) == tbcclSuccess);
    REQUIRE(request == TBCCL_REQUEST_NULL);
  }
}

TEST_CASE("Ranks meet through the caller's own all-gather") {
  constexpr int kRanks = 3;
  ThreadExchange exchange(kRanks);
  struct Context {
    ThreadExchange* exchange;
    int rank;
  };
  const auto callback = [](void* context, const void* send, void* recv, size_t bytes) {
    const auto* mine = static_cast<const Context*>(context);
    return mine->exchange->gather(mine->rank, send, recv, bytes);
  };
  int64_t sums[kRanks] = {};
  tbcclResult_t results[kRanks] = {};
  on_all_ranks(kRanks, [&](int rank) {
    Context context{&exchange, rank};
    tbcclComm_t comm = nullptr;
    tbcclResult_t& result = results[rank];
    result = tbcclCommInitExchange(&comm, kRanks, rank, callback, &context, nullptr);
    if (result != tbcclSuccess) return;
    sums[rank] = rank + 1;
    result = tbcclAllReduce(&sums[rank], &sums[rank], 1, tbcclInt64, tbcclSum, comm, nullptr);
    const tbcclResult_t destroyed = tbcclCommDestroy(comm);
    if (result == tbcclSuccess) result = destroyed;
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    REQUIRE(results[rank] == tbcclSuccess);
    REQUIRE(sums[rank] == 6);
  }
}

TEST_CASE("Destroyed communicators leave no thread and no descriptor behind") {
  const auto use = [] {
    Team team(3);
    REQUIRE(team.result() == tbcclSuccess);
    on_all_ranks(3, [&](int rank) { tbcclBarrier(team[rank], nullptr); });
    for (tbcclResult_t result : team.destroy()) REQUIRE(result == tbcclSuccess);
  };
  if (running_threads() < 0) return;  // only Linux shows them as files
  const int threads = running_threads();
  use();  // what is made once a process exists from here on
  REQUIRE(settles(running_threads, threads));
  const int descriptors = open_descriptors();
  for (int i = 0; i < 3; ++i) use();
  REQUIRE(settles(running_threads, threads));
  REQUIRE(settles(open_descriptors, descriptors));
}

TEST_CASE("A rank that does not come is named") {
  Port port;
  REQUIRE(port.bound());
  setenv("TBCCL_SIZE", "3", 1);
  setenv("TBCCL_RENDEZVOUS", port.text().c_str(), 1);
  setenv("TBCCL_RANK", "0", 1);
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  config.connectTimeoutMs = 1500;
  tbcclComm_t comm = nullptr;
  const tbcclResult_t result = tbcclCommInitEnv(&comm, &config);
  const std::string text = tbcclGetLastError(nullptr);
  for (const char* name : {"TBCCL_SIZE", "TBCCL_RENDEZVOUS", "TBCCL_RANK"}) unsetenv(name);
  INFO(text);
  REQUIRE(result != tbcclSuccess);
  REQUIRE(comm == nullptr);
  REQUIRE(contains(text, "1"));
  REQUIRE(contains(text, "2"));
  REQUIRE(contains(text, "rank"));
}
