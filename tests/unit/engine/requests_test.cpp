// Requests: order, concurrency, waiting, callbacks, gates, detaching, fork, idleness, leaks.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "engine/home.h"
#include "group.h"
#include "unit/catch.h"

namespace tbccl::testing {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

std::shared_ptr<const engine::Plan> plan_of(const char* algorithm, int rank, int size) {
  return make_plan(algorithm, {}, rank, size);
}

// A vector of one value, and its sum over all ranks.
struct Vector {
  Vector(int rank, uint64_t count, float add = 0)
      : input(count, static_cast<float>(rank + 1) + add), output(count, -1) {}
  bool is(float expected) const {
    for (const float x : output) {
      if (x != expected) return false;
    }
    return true;
  }
  std::vector<float> input, output;
};

TEST_CASE("several channels from several threads in opposite orders") {
  GroupOptions options;
  options.size = 3;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  options.channels = 4;
  Group group(options);
  std::atomic<int> wrong{0};
  group.each([&](int rank) {
    const auto plan = plan_of("ring", rank, 3);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < 20; ++round) {
          for (int k = 0; k < 2; ++k) {
            const int c = 2 * t + (rank % 2 == 0 ? k : 1 - k);
            Vector v(rank, 5000, static_cast<float>(round));
            engine::Request* request = nullptr;
            const auto call = all_reduce(plan, v.input.data(), v.output.data(), 5000);
            if (!group.lane(rank).submit(group.channel(rank, c), call, &request).ok()) ++wrong;
            if (request == nullptr) return;
            // The first of the two is only waited for after the second was submitted too.
            static thread_local std::vector<std::pair<engine::Request*, Vector>> open;
            open.emplace_back(request, std::move(v));
            if (k == 0) continue;
            for (auto& [r, vector] : open) {
              if (!group.lane(rank).wait(r, kNever).ok()) ++wrong;
              if (!vector.is(6 + 3 * static_cast<float>(round))) ++wrong;
              group.lane(rank).release(r);
            }
            open.clear();
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("many requests at once complete in any order of waiting") {
  Group group({.size = 3});
  constexpr int kRequests = 100;  // more than may be active at once
  std::atomic<int> wrong{0};
  group.each([&](int rank) {
    const auto plan = plan_of("direct", rank, 3);
    std::vector<Vector> vectors;
    std::vector<engine::Request*> requests(kRequests);
    for (int i = 0; i < kRequests; ++i) vectors.emplace_back(rank, 100 + i, i);
    for (int i = 0; i < kRequests; ++i) {
      const auto call = all_reduce(plan, vectors[i].input.data(), vectors[i].output.data(),
                                   vectors[i].input.size());
      if (!group.lane(rank).submit(group.channel(rank), call, &requests[i]).ok()) ++wrong;
    }
    for (int i = 0; i < kRequests; ++i) {
      const int k = rank == 1 ? kRequests - 1 - i : i;
      if (!group.lane(rank).wait(requests[k], kNever).ok()) ++wrong;
      if (!vectors[k].is(static_cast<float>(6 + 3 * k))) ++wrong;
      group.lane(rank).release(requests[k]);
    }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("test, and a wait that runs out of time, break nothing") {
  Group group({.size = 2});
  Vector a(0, 10), b(1, 10);
  engine::Request* request = nullptr;
  const auto call = all_reduce(plan_of("direct", 0, 2), a.input.data(), a.output.data(), 10);
  REQUIRE(group.lane(0).submit(group.channel(0), call, &request).ok());
  Status result;
  REQUIRE_FALSE(group.lane(0).test(request, &result));
  REQUIRE(group.lane(0).wait(request, 5 * kMillisecond).code() == tbcclInProgress);
  REQUIRE(group.lane(0).wait(request, 0).code() == tbcclInProgress);
  int index = -1;
  REQUIRE(engine::wait_any(&request, 1, 5 * kMillisecond, &index).code() == tbcclInProgress);
  REQUIRE(group.lane(0).state(group.channel(0)).ok());
  REQUIRE(group.lane(0).record(group.channel(0)).number == 1);
  REQUIRE(group.lane(1)
              .run(group.channel(1),
                   all_reduce(plan_of("direct", 1, 2), b.input.data(), b.output.data(), 10))
              .ok());
  // Nobody waits: the worker completes it.
  REQUIRE(eventually([&] { return group.lane(0).test(request, &result); }));
  REQUIRE(result.ok());
  REQUIRE(a.is(3));
  REQUIRE(b.is(3));
  group.lane(0).release(request);
  REQUIRE(group.lane(0).drain(group.channel(0), now_ns() + 10'000 * kMillisecond).ok());
}

TEST_CASE("requests that nobody waits for go on, also where all before were waited for at once") {
  GroupOptions options;
  options.wire = GENERATE(Wire::kMemory, Wire::kTcp);
  Group group(options);
  std::atomic<int> wrong{0};
  std::atomic<int> called{0};
  group.each([&](int rank) {
    const auto plan = plan_of("ring", rank, 2);
    const auto submit = [&](Vector& v, void (*callback)(void*, tbcclResult_t)) {
      engine::Request* request = nullptr;
      auto call = all_reduce(plan, v.input.data(), v.output.data(), 100);
      call.callback = callback;
      call.callback_context = &called;
      if (!group.lane(rank).submit(group.channel(rank), call, &request).ok()) ++wrong;
      return request;
    };
    const auto finish = [&](engine::Request* request, const Vector& v) {
      if (request == nullptr || !group.lane(rank).wait(request, kNever).ok() || !v.is(3)) ++wrong;
      if (request != nullptr) group.lane(rank).release(request);
    };
    for (int turn = 0; turn < 4; ++turn) {
      for (int i = 0; i < 10; ++i) {
        Vector v(rank, 100);
        finish(submit(v, nullptr), v);
      }
      // Only looked at.
      Vector looked(rank, 100);
      engine::Request* const request = submit(looked, nullptr);
      Status result;
      if (!eventually([&] { return group.lane(rank).test(request, &result); })) ++wrong;
      finish(request, looked);
      // Left alone.
      Vector alone(rank, 100);
      const int before = 2 * turn;
      engine::Request* const left = submit(alone, [](void* context, tbcclResult_t) {
        static_cast<std::atomic<int>*>(context)->fetch_add(1);
      });
      if (!eventually([&] { return called.load() >= before + 2; })) ++wrong;
      finish(left, alone);
      // Left alone without a callback: only its result tells.
      Vector silent(rank, 100);
      engine::Request* const quiet = submit(silent, nullptr);
      if (!eventually([&] { return quiet != nullptr && quiet->complete.load(); })) ++wrong;
      finish(quiet, silent);
    }
  });
  REQUIRE(wrong == 0);
  REQUIRE(called == 8);
}

TEST_CASE("the worker serves a submission although it missed the bell to leave the poller") {
  Events events;
  link::Options links;
  links.rank = 0;
  links.size = 1;
  engine::Home home(engine::LaneOptions(), links, events);
  REQUIRE(home.status.ok());
  engine::ChannelOptions options;
  options.comm = 1;
  options.peers = {0};
  engine::Channel* channel = nullptr;
  home.visit([&](engine::Core& core) { channel = core.add_channel(options); });
  const bool listening =
      eventually([&] { return home.token.state() == engine::Token::State::kListening; });
  // A caller takes the token and rings, but sleeps in the poller too and answers the bell itself
  // before the worker does: as if it had not rung.
  const bool taken = home.token.try_take() == engine::Token::Taken::kFromListener;
  if (taken) home.leave();
  Vector v(0, 10);
  engine::Request* request = nullptr;
  const auto call = all_reduce(plan_of("direct", 0, 1), v.input.data(), v.output.data(), 10);
  const bool submitted = channel->submit(&home, call, 2, home.inbox, &request).ok();
  home.pushed();
  const bool complete = eventually([&] { return request->complete.load(); });
  home.worker.stop();
  REQUIRE(listening);
  REQUIRE(taken);
  REQUIRE(submitted);
  REQUIRE(complete);
  REQUIRE(v.is(1));
  channel->unreference(request);
  REQUIRE(home.take());
}

TEST_CASE("wait-any over requests of several lanes") {
  Group group({.size = 2, .channels = 2});
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Vector> vectors;
    std::vector<engine::Request*> requests;
    for (int i = 0; i < 4; ++i) vectors.emplace_back(i % 2, 1000 + 7000 * i / 2);
    for (int i = 0; i < 4; ++i) {
      const int rank = i % 2;
      engine::Request* request = nullptr;
      const uint64_t count = vectors[i - rank].input.size();
      vectors[i].input.resize(count, static_cast<float>(rank + 1));
      vectors[i].output.resize(count, -1);
      REQUIRE(group.lane(rank)
                  .submit(group.channel(rank, i / 2),
                          all_reduce(plan_of("ring", rank, 2), vectors[i].input.data(),
                                     vectors[i].output.data(), count),
                          &request)
                  .ok());
      requests.push_back(request);
    }
    for (int left = 4; left > 0; --left) {
      int index = -1;
      const Status result = engine::wait_any(requests.data(), 4, kNever, &index);
      REQUIRE(result.ok());
      REQUIRE(index >= 0);
      REQUIRE(vectors[index].is(3));
      group.lane(index % 2).release(requests[index]);
      requests[index] = nullptr;
    }
  }
}

TEST_CASE("callbacks run once each, in the order of completion, on a thread of the library") {
  Group group({.size = 2});
  struct Seen {
    std::mutex mutex;
    std::vector<std::thread::id> threads;
    int errors = 0;
  } seen;
  const auto callback = [](void* context, tbcclResult_t result) {
    auto* const s = static_cast<Seen*>(context);
    const std::lock_guard lock(s->mutex);
    s->threads.push_back(std::this_thread::get_id());
    if (result != tbcclSuccess) ++s->errors;
  };
  constexpr int kCalls = 20;
  std::vector<Vector> vectors;
  for (int i = 0; i < 2 * kCalls; ++i) vectors.emplace_back(i % 2, 64);
  std::vector<std::thread::id> callers(2);
  group.each([&](int rank) {
    callers[rank] = std::this_thread::get_id();
    for (int i = 0; i < kCalls; ++i) {
      Vector& v = vectors[2 * i + rank];
      auto call = all_reduce(plan_of("doubling", rank, 2), v.input.data(), v.output.data(), 64);
      call.callback = callback;
      call.callback_context = &seen;
      engine::Request* request = nullptr;
      if (i % 2 == 0) {
        (void)group.lane(rank).submit(group.channel(rank), call, &request);
        group.lane(rank).release(request);  // detached
      } else {
        (void)group.lane(rank).run(group.channel(rank), call);
      }
    }
  });
  REQUIRE(eventually([&] {
    const std::lock_guard lock(seen.mutex);
    return seen.threads.size() == 2 * kCalls;
  }));
  REQUIRE(seen.errors == 0);
  for (const std::thread::id id : seen.threads) {
    REQUIRE(id != callers[0]);
    REQUIRE(id != callers[1]);
  }
  for (const Vector& v : vectors) REQUIRE(v.is(3));
}

TEST_CASE("a call that starts when a flag is set holds back those behind it") {
  Group group({.size = 2});
  alignas(4) uint32_t flag = 0;
  std::vector<Vector> vectors;
  for (int i = 0; i < 4; ++i) vectors.emplace_back(i % 2, 200);
  engine::Request* requests[4] = {};
  for (int i = 0; i < 4; ++i) {
    const int rank = i % 2;
    auto call = all_reduce(plan_of("direct", rank, 2), vectors[i].input.data(),
                           vectors[i].output.data(), 200);
    if (i == 0) {
      call.start_when = tbcclStartWhenFlag;
      call.flag = &flag;
      call.flag_value = 7;
      call.timeout_ns = 60'000 * kMillisecond;  // for the flag, and anew from the start
    }
    REQUIRE(group.lane(rank).submit(group.channel(rank), call, &requests[i]).ok());
  }
  Status result;
  REQUIRE(group.lane(0).wait(requests[2], 400 * kMillisecond).code() == tbcclInProgress);
  REQUIRE_FALSE(group.lane(0).test(requests[0], &result));
  __atomic_store_n(&flag, 7u, __ATOMIC_RELEASE);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(group.lane(i % 2).wait(requests[i], kNever).ok());
    REQUIRE(vectors[i].is(3));
    group.lane(i % 2).release(requests[i]);
  }
}

TEST_CASE("a call that starts when a descriptor becomes readable") {
  Group group({.size = 2});
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  Vector a(0, 300), b(1, 300);
  auto call = all_reduce(plan_of("direct", 0, 2), a.input.data(), a.output.data(), 300);
  call.start_when = tbcclStartWhenDescriptor;
  call.descriptor = ends[0];
  engine::Request *first = nullptr, *second = nullptr;
  REQUIRE(group.lane(0).submit(group.channel(0), call, &first).ok());
  REQUIRE(group.lane(1)
              .submit(group.channel(1),
                      all_reduce(plan_of("direct", 1, 2), b.input.data(), b.output.data(), 300),
                      &second)
              .ok());
  REQUIRE(group.lane(1).wait(second, 50 * kMillisecond).code() == tbcclInProgress);
  REQUIRE(write(ends[1], "x", 1) == 1);
  REQUIRE(group.lane(1).wait(second, kNever).ok());
  REQUIRE(group.lane(0).wait(first, kNever).ok());
  char byte = 0;
  REQUIRE(read(ends[0], &byte, 1) == 1);  // it was not read by the engine
  REQUIRE(a.is(3));
  group.lane(0).release(first);
  group.lane(1).release(second);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a descriptor that is not open breaks the channel with a clear cause") {
  Group group({.size = 1});
  Vector v(0, 1);
  auto call = all_reduce(plan_of("direct", 0, 1), v.input.data(), v.output.data(), 1);
  call.start_when = tbcclStartWhenDescriptor;
  call.descriptor = 1'000'000;
  const Status result = group.lane(0).run(group.channel(0), call);
  REQUIRE(result.code() == tbcclInvalidUsage);
  REQUIRE(result.text().find("descriptor 1000000") != std::string::npos);
}

TEST_CASE("a child made by fork is told so, and its end harms nothing") {
  Group group({.size = 2});
  Vector v(0, 10);
  const auto call = all_reduce(plan_of("direct", 0, 2), v.input.data(), v.output.data(), 10);
  const pid_t child = fork();
  if (child == 0) {
    engine::Request* request = nullptr;
    bool right = engine::forked();
    right &= group.lane(0).run(group.channel(0), call).code() == tbcclInvalidUsage;
    right &= group.lane(0).submit(group.channel(0), call, &request).code() == tbcclInvalidUsage;
    right &= group.lane(0).state(group.channel(0)).code() == tbcclInvalidUsage;
    group.drop(0);  // destructors touch nothing
    _exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  REQUIRE_FALSE(engine::forked());
  std::vector<Status> results(2);
  std::vector<Vector> vectors{Vector(0, 10), Vector(1, 10)};
  group.each([&](int rank) {
    results[rank] = group.lane(rank).run(
        group.channel(rank), all_reduce(plan_of("direct", rank, 2), vectors[rank].input.data(),
                                        vectors[rank].output.data(), 10));
  });
  REQUIRE(results[0].ok());
  REQUIRE(results[1].ok());
  REQUIRE(vectors[0].is(3));
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST_CASE("waiting and idle lanes cost next to nothing") {
  GroupOptions options;
  options.size = 2;
  options.wire = Wire::kTcp;
  Group group(options);
  std::vector<Vector> vectors{Vector(0, 100), Vector(1, 100)};
  const auto once = [&](int rank) {
    (void)group.lane(rank).run(group.channel(rank),
                               all_reduce(plan_of("direct", rank, 2), vectors[rank].input.data(),
                                          vectors[rank].output.data(), 100));
  };
  group.each(once);
  // Idle.
  double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  REQUIRE(cpu_seconds() - before < 0.05);
  // One rank waits for another that is late.
  std::thread early([&] { once(0); });
  const bool began = eventually([&] {
    const engine::CallRecord record = group.lane(0).record(group.channel(0));
    return record.number == 2 && record.waiting_for == std::vector<int>{1};
  });
  before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double waiting = cpu_seconds() - before;
  once(1);
  early.join();
  REQUIRE(began);
  REQUIRE(waiting < 0.05);
  REQUIRE(vectors[0].is(3));
}

TEST_CASE("no thread and no descriptor outlives its lane") {
  { Group warm_up({.size = 2, .wire = Wire::kTcp}); }
  const int threads = threads_of_process();
  const int descriptors = descriptors_of_process();
  for (int i = 0; i < 3; ++i) {
    Group group({.size = 3, .wire = Wire::kTcp, .channels = 2});
    group.each([&](int rank) {
      Vector v(rank, 1000);
      auto call = all_reduce(plan_of("ring", rank, 3), v.input.data(), v.output.data(), 1000);
      call.callback = [](void*, tbcclResult_t) {};
      (void)group.lane(rank).run(group.channel(rank), call);
    });
  }
  REQUIRE(threads_of_process() == threads);
  REQUIRE(descriptors_of_process() == descriptors);
}

}  // namespace
}  // namespace tbccl::testing
