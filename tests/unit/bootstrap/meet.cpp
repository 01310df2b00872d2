#include "unit/bootstrap/ranks.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::bootstrap;
using namespace tbccl::bootstrap::test;
using Kind = MeetingPoint::Kind;

TEST_CASE("ranks meet in every form, exchange bytes and part") {
  const Kind kind = GENERATE(Kind::kAddress, Kind::kUniqueId, Kind::kExchange);
  const int size = GENERATE(1, 2, 3, 4, 5, 7, 8, 11);
  CAPTURE(static_cast<int>(kind), size);
  auto ranks = meet_as(kind, size);
  for (const Rank& r : ranks) {
    INFO(r.status.text());
    REQUIRE(r.status.ok());
  }
  std::vector<std::string> problems(static_cast<size_t>(size));
  in_parallel(size, [&](int rank) {
    Rank& r = ranks[static_cast<size_t>(rank)];
    std::string& problem = problems[static_cast<size_t>(rank)];
    for (int round = 0; round < 3; ++round) {
      // Lengths differ, and one is zero.
      const std::string mine(static_cast<size_t>(rank * 1000 * (round + 1)),
                             static_cast<char>('a' + rank));
      std::vector<std::string> all;
      const Status status = r.control->all_gather(mine, in_seconds(60), &all);
      if (!status.ok()) problem = status.text();
      if (all.size() != static_cast<size_t>(size)) return;
      for (int other = 0; other < size; ++other) {
        const std::string expected(static_cast<size_t>(other * 1000 * (round + 1)),
                                   static_cast<char>('a' + other));
        if (all[static_cast<size_t>(other)] != expected) problem = "wrong bytes";
      }
    }
    const Status status = r.control->goodbye(in_seconds(60));
    if (!status.ok()) problem = status.text();
  });
  for (int rank = 0; rank < size; ++rank) {
    Rank& r = ranks[static_cast<size_t>(rank)];
    CHECK(problems[static_cast<size_t>(rank)] == "");
    CHECK(r.control->session() == ranks[0].control->session());
    CHECK(r.control->addresses() ==
          std::vector<std::string>(static_cast<size_t>(size), "127.0.0.1"));
    CHECK(r.control->local_address() == "127.0.0.1");
  }
  for (Rank& r : ranks) r.control.reset();
  for (int rank = 0; rank < size; ++rank) {
    for (int other = 0; other < size; ++other) {
      Events& events = *ranks[static_cast<size_t>(rank)].events;
      CHECK(events.count("gone", other) == 0);
      CHECK(events.count("finished", other) == (other == rank ? 0 : 1));
    }
  }
}
