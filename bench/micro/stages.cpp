// One all-reduce of 8 bytes between two ranks, taken apart: what each layer costs on top of the
// bare exchange below it. Rows of two threads are two ranks; their time is that of one exchange.
//
//   line, socket   two threads exchange a cache line, or 8 bytes over loopback TCP: the floor
//   lane           Lane::run with the call ready: token, number, publishing or sending, folding
//   call           tbcclAllReduce: the handle, its arguments, the memo, and lane
//   prepare        of call: arguments and memo alone (one thread)
//   token          of lane: taking and leaving the token alone (one thread)
//   fold           of lane: the sum of two floats (one thread)
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "api/handles.h"
#include "tbccl/tbccl.h"

namespace {

using namespace tbccl;

// Two communicators of one job in this process, over one transport.
class Pair {
 public:
  explicit Pair(const char* transports) {
    std::array<std::thread, 2> threads;
    tbcclUniqueId id;
    check(tbcclGetUniqueId(&id));
    for (size_t rank = 0; rank < 2; ++rank) {
      threads[rank] = std::thread([this, rank, id, transports] {
        tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
        config.transports = transports;
        check(tbcclCommInitRankConfig(&comms_[rank], 2, id, static_cast<int>(rank), &config));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  tbcclComm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }

  static void check(tbcclResult_t result) {
    if (result == tbcclSuccess) return;
    std::fprintf(stderr, "%s\n", tbcclGetLastError(nullptr));
    std::exit(1);
  }

 private:
  std::array<tbcclComm_t, 2> comms_{};
};

// Made when first asked for; they live as long as the program.
Pair& pair(bool shared) {
  if (shared) {
    static Pair& made = *new Pair("shm");
    return made;
  }
  static Pair& made = *new Pair("tcp");
  return made;
}

comm::Operation operation(float* values) {
  comm::Operation o;
  o.input = o.output = values;
  o.count = 2;
  o.type = tbcclFloat32;
  return o;
}

struct alignas(128) Line {
  std::atomic<uint64_t> number{0};
  float values[2] = {};
};
std::array<Line, 4> lines;  // two a rank, in turn

void line(benchmark::State& state) {
  const auto me = static_cast<size_t>(state.thread_index());
  static std::array<uint64_t, 2> numbers;
  uint64_t number = numbers[me];
  float sum[2] = {1, 2};
  for (auto _ : state) {
    Line& mine = lines[2 * me + ++number % 2];
    Line& theirs = lines[2 * (1 - me) + number % 2];
    mine.values[0] = sum[0];
    mine.values[1] = sum[1];
    mine.number.store(number);
    for (int look = 1; theirs.number.load(std::memory_order_acquire) < number; ++look) {
      if (look % 1000 == 0) sched_yield();
    }
    sum[0] = theirs.values[0];
    sum[1] = theirs.values[1];
    benchmark::DoNotOptimize(sum);
  }
  numbers[me] = number;
}
BENCHMARK(line)->Threads(2)->UseRealTime();

std::array<int, 2> make_sockets() {
  std::array<int, 2> ends{};
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ends[0] = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::bind(listener, generic, bytes) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, generic, &bytes) != 0 || ::connect(ends[0], generic, bytes) != 0) {
    std::perror("a loopback connection");
    std::exit(1);
  }
  ends[1] = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  for (int end : ends) {
    const int on = 1;
    ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
  return ends;
}

void socket(benchmark::State& state) {
  static const std::array<int, 2> ends = make_sockets();
  const int end = ends[static_cast<size_t>(state.thread_index())];
  char values[8] = {};
  for (auto _ : state) {
    if (::send(end, values, sizeof values, 0) != sizeof values) state.SkipWithError("send");
    for (int look = 1; ::recv(end, values, sizeof values, 0) != sizeof values; ++look) {
      if (look % 1000 == 0) sched_yield();
    }
  }
}
BENCHMARK(socket)->Threads(2)->UseRealTime();

void lane(benchmark::State& state) {
  const tbcclComm_t comm = pair(state.range(0) != 0)[state.thread_index()];
  float values[2] = {};
  engine::Call call;
  if (!comm->communicator->prepare(operation(values), &call).ok()) state.SkipWithError("prepare");
  for (auto _ : state) {
    const Status status = comm->communicator->lane().run(comm->communicator->channel(), call);
    if (!status.ok()) state.SkipWithError("run");
  }
}
BENCHMARK(lane)->ArgName("shm")->Arg(1)->Arg(0)->Threads(2)->UseRealTime();

void call(benchmark::State& state) {
  const tbcclComm_t comm = pair(state.range(0) != 0)[state.thread_index()];
  float values[2] = {};
  for (auto _ : state) {
    Pair::check(tbcclAllReduce(values, values, 2, tbcclFloat32, tbcclSum, comm, nullptr));
  }
}
BENCHMARK(call)->ArgName("shm")->Arg(1)->Arg(0)->Threads(2)->UseRealTime();

void prepare(benchmark::State& state) {
  const tbcclComm_t comm = pair(true)[0];
  float values[2] = {};
  for (auto _ : state) {
    engine::Call ready;
    if (!comm->communicator->prepare(operation(values), &ready).ok())
      state.SkipWithError("prepare");
    benchmark::DoNotOptimize(ready);
  }
}
BENCHMARK(prepare);

void token(benchmark::State& state) {
  engine::Lane& lane = pair(true)[0]->communicator->lane();
  const std::function<void(link::Links&)> nothing = [](link::Links&) {};
  for (auto _ : state) lane.with_links(nothing);
}
BENCHMARK(token);

void fold(benchmark::State& state) {
  reduce::Reduction r;
  float a[2] = {1, 2}, b[2] = {3, 4};
  const void* sources[] = {a, b};
  for (auto _ : state) {
    reduce::fold(r, a, sources, 2, 2, true);
    benchmark::DoNotOptimize(a);
  }
}
BENCHMARK(fold);

}  // namespace

BENCHMARK_MAIN();
