// What happens when ranks do not come, do not fit together, die, or fail.
#include <chrono>

#include "bootstrap/service.h"
#include "unit/bootstrap/ranks.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::bootstrap;
using namespace tbccl::bootstrap::test;
using Kind = MeetingPoint::Kind;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<Rank> meet_all(Kind kind, int size) {
  auto ranks = meet_as(kind, size);
  for (const Rank& r : ranks) {
    INFO(r.status.text());
    REQUIRE(r.status.ok());
  }
  return ranks;
}

}  // namespace

TEST_CASE("ranks that do not come are named on every rank that did") {
  Job job;
  job.seconds = 3;
  job.absent = {2, 3};
  SECTION("address") { job.where = at(free_address()); }
  SECTION("id") {
    job.where.kind = Kind::kUniqueId;
    job.settings.connect_timeout_ns = 3'000'000'000;
    REQUIRE(make_unique_id(job.settings, &job.where.id).ok());
  }
  const auto ranks = meet(4, job);
  for (const int r : {0, 1}) {
    const Status& status = ranks[static_cast<size_t>(r)].status;
    CAPTURE(status.text());
    CHECK(status.code() == tbcclTimeout);
    CHECK(has(status.text(), "ranks 2 and 3 of 4 did not come"));
    if (job.where.kind == Kind::kAddress) CHECK(has(status.text(), job.where.address));
    CHECK(ranks[static_cast<size_t>(r)].control == nullptr);
  }
}

TEST_CASE("without rank 0 the others say where they looked") {
  Job job;
  job.seconds = 2;  // for at least one attempt, also on a busy machine
  job.absent = {0};
  job.where = at(free_address());
  const auto ranks = meet(2, job);
  CHECK(ranks[1].status.code() == tbcclTimeout);
  CHECK(has(ranks[1].status.text(), job.where.address));
  CHECK(has(ranks[1].status.text(), "refused"));
}

TEST_CASE("a name that does not exist ends at the deadline") {
  Job job;
  job.seconds = 2;
  job.absent = {0};
  job.where = at("no-such-host.invalid:4000");
  const auto ranks = meet(2, job);
  CHECK(ranks[1].status.code() == tbcclTimeout);
  CHECK(has(ranks[1].status.text(), "no-such-host.invalid"));
}

TEST_CASE("host names and IPv6 literals are addresses too") {
  Job job;
  SECTION("name") { job.where = at("localhost:" + std::to_string(free_port())); }
  SECTION("IPv6") { job.where = at("[::1]:" + std::to_string(free_port())); }
  auto ranks = meet(3, job);
  for (const Rank& r : ranks) {
    INFO(r.status.text());
    REQUIRE(r.status.ok());
  }
}

TEST_CASE("a rank that comes twice is an error everywhere") {
  Job job;
  job.seconds = 20;
  // An id's root tells late ranks until its deadline, an address's for five seconds.
  job.where.kind = Kind::kUniqueId;
  REQUIRE(make_unique_id(job.settings, &job.where.id).ok());
  const auto ranks = meet(3, job, [](int index, int* rank, int* size, Job*) {
    *rank = index == 2 ? 1 : index;
    *size = 3;
  });
  for (const Rank& r : ranks) {
    CAPTURE(r.status.text());
    CHECK(r.status.code() == tbcclInvalidUsage);
    CHECK(has(r.status.text(), "rank 1 came twice"));
  }
}

TEST_CASE("ranks that disagree about their number are an error everywhere") {
  Job job;
  job.seconds = 20;
  // An id's root tells late ranks until its deadline, an address's for five seconds.
  job.where.kind = Kind::kUniqueId;
  REQUIRE(make_unique_id(job.settings, &job.where.id).ok());
  const auto ranks = meet(3, job, [](int index, int*, int* size, Job*) {
    if (index == 2) *size = 4;
  });
  for (const Rank& r : ranks) {
    CAPTURE(r.status.text());
    CHECK(r.status.code() == tbcclInvalidUsage);
    CHECK(has(r.status.text(), "the number of ranks"));
  }
}

TEST_CASE("arguments that cannot work are refused at once") {
  std::unique_ptr<Control> control;
  Settings settings;
  const auto try_meet = [&](int rank, int size, const std::string& address) {
    return Control::meet(rank, size, at(address), settings, in_seconds(5), nullptr, &control);
  };
  CHECK(try_meet(2, 2, "127.0.0.1:1").code() == tbcclInvalidArgument);
  CHECK(try_meet(-1, 2, "127.0.0.1:1").code() == tbcclInvalidArgument);
  CHECK(try_meet(0, 0, "127.0.0.1:1").code() == tbcclInvalidArgument);
  for (const char* address :
       {"", "host", ":1", "host:", "host:0", "host:65536", "host:1x", "::1:5", "[::1:5", "[]:5"}) {
    CAPTURE(address);
    CHECK(try_meet(0, 2, address).code() == tbcclInvalidArgument);
  }
  settings.port_range = "9-3";
  CHECK(try_meet(0, 2, "127.0.0.1:1").code() == tbcclInvalidArgument);
  settings.port_range = "";
  MeetingPoint id;
  id.kind = Kind::kUniqueId;
  CHECK(Control::meet(0, 2, id, settings, in_seconds(5), nullptr, &control).code() ==
        tbcclInvalidArgument);
  // 192.0.2.0/24 is nobody's.
  const Status status = try_meet(0, 2, "192.0.2.1:29400");
  CHECK(status.code() == tbcclSystemError);
  CHECK(has(status.text(), "192.0.2.1:29400"));
}

TEST_CASE("secrets") {
  Settings settings;
  settings.secret = "a secret";
#ifdef TBCCL_HAVE_SODIUM
  SECTION("the same everywhere") {
    for (const Kind kind : {Kind::kAddress, Kind::kUniqueId, Kind::kExchange}) {
      auto ranks = meet_as(kind, 3, settings);
      for (const Rank& r : ranks) {
        INFO(r.status.text());
        CHECK(r.status.ok());
      }
    }
  }
  SECTION("one differs, or is missing") {
    const bool missing = GENERATE(false, true);
    Job job;
    job.settings = settings;
    job.seconds = 4;
    job.where = at(free_address());
    const auto ranks = meet(3, job, [&](int index, int*, int*, Job* mine) {
      if (index == 2) mine->settings.secret = missing ? "" : "another";
    });
    CAPTURE(ranks[2].status.text());
    CHECK(ranks[2].status.code() == tbcclInvalidUsage);
    CHECK(has(ranks[2].status.text(), "TBCCL_SECRET"));
    for (const int r : {0, 1}) {
      const std::string& text = ranks[static_cast<size_t>(r)].status.text();
      CAPTURE(text);
      CHECK(has(text, "rank 2 of 3 did not come"));
      CHECK(has(text, "TBCCL_SECRET"));
    }
  }
#else
  tbcclUniqueId id;
  const Status status = make_unique_id(settings, &id);
  CHECK(status.code() == tbcclInvalidUsage);
  CHECK(has(status.text(), "libsodium"));
#endif
}

TEST_CASE("a rank that ends without goodbye is gone once on every other rank") {
  const int size = GENERATE(2, 4, 8, 11);
  const int victim = GENERATE(0, 1);
  CAPTURE(size, victim);
  auto ranks = meet_all(Kind::kUniqueId, size);
  ranks[static_cast<size_t>(victim)].control.reset();
  for (int r = 0; r < size; ++r) {
    if (r == victim) continue;
    Events& events = *ranks[static_cast<size_t>(r)].events;
    CHECK(events.count("gone", victim, 1) == 1);
    CHECK(has(events.text("gone", victim), "rank " + std::to_string(victim)));
  }
  std::vector<Status> partings(static_cast<size_t>(size));
  in_parallel(size, [&](int r) {
    if (r == victim) return;
    partings[static_cast<size_t>(r)] =
        ranks[static_cast<size_t>(r)].control->goodbye(in_seconds(30));
  });
  for (int r = 0; r < size; ++r) {
    if (r == victim) continue;
    ranks[static_cast<size_t>(r)].control.reset();
    CHECK(partings[static_cast<size_t>(r)].code() == tbcclRemoteError);
    for (int other = 0; other < size; ++other) {
      CHECK(ranks[static_cast<size_t>(r)].events->count("gone", other) ==
            (other == victim ? 1 : 0));
    }
  }
}

TEST_CASE("an all-gather ends when a rank goes or does not come") {
  auto ranks = meet_all(Kind::kUniqueId, 3);
  std::vector<Status> results(3);
  SECTION("goes") {
    in_parallel(3, [&](int r) {
      std::vector<std::string> all;
      if (r == 2)
        ranks[2].control.reset();
      else
        results[static_cast<size_t>(r)] =
            ranks[static_cast<size_t>(r)].control->all_gather("x", in_seconds(30), &all);
    });
    for (const int r : {0, 1}) {
      CHECK(results[static_cast<size_t>(r)].code() == tbcclRemoteError);
      CHECK(has(results[static_cast<size_t>(r)].text(), "rank 2"));
    }
  }
  SECTION("does not come") {
    in_parallel(2, [&](int r) {
      std::vector<std::string> all;
      // Time enough for both to have come: the one that comes last is not the one to be named.
      results[static_cast<size_t>(r)] =
          ranks[static_cast<size_t>(r)].control->all_gather("x", in_seconds(2), &all);
    });
    CHECK(results[0].code() == tbcclTimeout);
    CHECK(has(results[0].text(), "rank 2"));
    CHECK(results[1].code() == tbcclTimeout);
    std::vector<std::string> all;
    CHECK(ranks[0].control->all_gather("x", in_seconds(0.3), &all).code() == tbcclTimeout);
  }
}

TEST_CASE("a failure is told to all, once, also past a dead rank") {
  const int size = GENERATE(3, 11);
  auto ranks = meet_all(Kind::kExchange, size);
  ranks[1].control.reset();
  for (int r = 0; r < size; ++r) {
    if (r != 1) REQUIRE(ranks[static_cast<size_t>(r)].events->count("gone", 1, 1) == 1);
  }
  for (int i = 0; i < 3; ++i)
    ranks[2].control->announce_failure(5, Status(tbcclAborted, "the user aborted"));
  ranks[2].control->announce_failure(6, Status(tbcclTimeout, "too slow"));
  for (int r = 0; r < size; ++r) {
    if (r == 1 || r == 2) continue;
    Events& events = *ranks[static_cast<size_t>(r)].events;
    CHECK(events.count("failed6", 2, 1) == 1);
    CHECK(events.count("failed5", 2, 1) == 1);
    CHECK(events.text("failed5", 2) == "the user aborted");
  }
  CHECK(ranks[2].events->count("failed5", 2) == 0);
}

// The failure waits behind a query whose writing has not been reported yet.
TEST_CASE("a failure announced just before the connections are closed reaches everybody") {
  const int size = GENERATE(2, 4, 11);
  auto ranks = meet_all(Kind::kUniqueId, size);
  std::shared_ptr<Service> service;
  REQUIRE(Service::acquire(&service).ok());
  std::unique_ptr<Control>& leaver = ranks[1].control;
  SECTION("all at once") {
    service->run([&] {
      for (int i = 0; i < 3; ++i) leaver->query_records(5, 1'000'000'000, nullptr);
      leaver->announce_failure(5, Status(tbcclInvalidUsage, "last words"));
      service->post([&] { leaver.reset(); });
    });
  }
  SECTION("while the others are talking to it") {
    const std::string many(4000, 'x');
    for (int i = 0; i < 3; ++i) {
      for (int r = 0; r < size; ++r) {
        if (r != 1)
          ranks[static_cast<size_t>(r)].control->announce_failure(static_cast<uint32_t>(6 + i),
                                                                  Status(tbcclTimeout, many));
      }
    }
    leaver->announce_failure(5, Status(tbcclInvalidUsage, "last words"));
    leaver.reset();
  }
  for (int r = 0; r < size; ++r) {
    if (r == 1) continue;
    Events& events = *ranks[static_cast<size_t>(r)].events;
    CHECK(events.count("failed5", 1, 1) == 1);
    CHECK(events.text("failed5", 1) == "last words");
    CHECK(events.count("gone", 1, 1) == 1);
  }
}

TEST_CASE("records of all ranks are collected, and those of a dead one are missing") {
  const int size = GENERATE(1, 3, 11);
  const bool dead = size > 1 && GENERATE(false, true);
  CAPTURE(size, dead);
  auto ranks = meet_all(Kind::kUniqueId, size);
  if (dead) {
    ranks[1].control.reset();
    for (int r = 0; r < size; ++r) {
      if (r != 1) REQUIRE(ranks[static_cast<size_t>(r)].events->count("gone", 1, 1) == 1);
    }
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<PeerRecord> records;
  int calls = 0;
  ranks[0].control->query_records(3, 20'000'000'000, [&](std::vector<PeerRecord> r) {
    std::lock_guard lock(mutex);
    records = std::move(r);
    ++calls;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(25), [&] { return calls > 0; }));
  }
  REQUIRE(records.size() == static_cast<size_t>(size));
  for (int r = 0; r < size; ++r) {
    const PeerRecord& record = records[static_cast<size_t>(r)];
    CHECK(record.rank == r);
    const bool expected = !(dead && r == 1);
    CHECK(record.answered == expected);
    if (!expected) continue;
    CHECK(record.number == 103);
    CHECK(record.fingerprint == 7);
    CHECK(record.text == "all-reduce of rank " + std::to_string(r));
    CHECK(record.waiting_for == std::vector<int>{r + 1});
  }
  ranks.clear();
  CHECK(calls == 1);
}

TEST_CASE("goodbye names who does not say it") {
  auto ranks = meet_all(Kind::kUniqueId, 3);
  const Status status = ranks[0].control->goodbye(in_seconds(0.2));
  CHECK(status.code() == tbcclTimeout);
  CHECK(has(status.text(), "ranks 1 and 2"));
  ranks[0].control.reset();
  CHECK(ranks[1].events->count("finished", 0, 1) == 1);
  CHECK(ranks[1].events->count("gone", 0) == 0);
}

TEST_CASE("the exchange's failure names the callback") {
  MeetingPoint where;
  where.kind = Kind::kExchange;
  where.exchange = [](void*, const void*, void*, size_t) { return 42; };
  std::unique_ptr<Control> control;
  const Status status = Control::meet(0, 2, where, Settings(), in_seconds(5), nullptr, &control);
  CHECK(status.code() == tbcclSystemError);
  CHECK(has(status.text(), "callback"));
  CHECK(has(status.text(), "42"));
  // A callback that stores nothing useful.
  where.exchange = [](void*, const void*, void*, size_t) { return 0; };
  CHECK(Control::meet(0, 2, where, Settings(), in_seconds(5), nullptr, &control).code() ==
        tbcclInvalidUsage);
}

TEST_CASE("what a handler throws reaches the caller, and the control thread goes on") {
  std::shared_ptr<Service> service;
  REQUIRE(Service::acquire(&service).ok());
  CHECK_THROWS_AS(service->run([] { throw std::bad_alloc(); }), std::bad_alloc);
  bool ran = false;
  service->run([&] { ran = true; });
  CHECK(ran);
}
