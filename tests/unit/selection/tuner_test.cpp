#include "selection/tuner.h"

#include <cstring>
#include <string>
#include <vector>

#include "selection/selection.h"
#include "unit/catch.h"

using namespace tbccl;

namespace {

schedule::Basis four() {
  schedule::Basis basis;
  basis.size = 4;
  return basis;
}

std::string chosen(const schedule::Basis& basis, uint64_t bytes) {
  selection::Question q;
  q.count = bytes;
  selection::Choice choice;
  REQUIRE(selection::choose(q, basis, &choice).ok());
  return choice.algorithm;
}

// Likes rings for all-reduces of 1 KiB to 64 KiB.
int likes_rings(void* context, const tbcclTunerQuestion_t* q) {
  ++*static_cast<int*>(context);
  if (q->operation != tbcclOpAllReduce || q->minBytes < 1024 || q->maxBytes >= 65536) return -1;
  for (int i = 0; i < q->candidates; i++)
    if (std::strcmp(q->algorithms[i], "ring") == 0) return i;
  return -1;
}

}  // namespace

TEST_CASE("a tuner is asked for every size class and followed") {
  schedule::Basis basis = four();
  int asked = 0;
  REQUIRE(selection::ask_tuner(likes_rings, &asked, &basis).ok());
  REQUIRE(asked >= 3 * 48);
  REQUIRE(basis.preferences.size() == 1);
  REQUIRE(basis.preferences[0] == schedule::Preference{tbcclOpAllReduce, 1024, 65535, "ring", 4});
  REQUIRE(chosen(basis, 1023) == chosen(four(), 1023));
  REQUIRE(chosen(basis, 1024) == "ring");
  REQUIRE(chosen(basis, 65535) == "ring");
  REQUIRE(chosen(basis, 65536) == chosen(four(), 65536));
}

TEST_CASE("a tuner's answers come before a tuning file's") {
  schedule::Basis basis = four();
  basis.preferences = {{tbcclOpAllReduce, 0, UINT64_MAX, "twostep", 0}};
  int asked = 0;
  REQUIRE(selection::ask_tuner(likes_rings, &asked, &basis).ok());
  REQUIRE(chosen(basis, 2048) == "ring");
  REQUIRE(chosen(basis, 100) == "twostep");
}

TEST_CASE("a tuner sees what is possible, what it costs and what the library would do") {
  struct Seen {
    bool good = true;
    uint64_t end = 0;
  } seen;
  const auto look = [](void* context, const tbcclTunerQuestion_t* q) {
    auto* s = static_cast<Seen*>(context);
    s->good = s->good && q->size == sizeof *q && q->nranks == 4 && q->candidates > 0 &&
              q->libraryChoice >= 0 && q->libraryChoice < q->candidates;
    for (int i = 0; i < q->candidates; i++)
      s->good = s->good && q->predictedNs[i] >= q->predictedNs[q->libraryChoice];
    s->good = s->good && q->minBytes == (s->end == SIZE_MAX ? 0 : s->end + (s->end > 0 ? 1 : 0));
    s->end = q->maxBytes;
    return -1;
  };
  schedule::Basis basis = four();
  REQUIRE(selection::ask_tuner(look, &seen, &basis).ok());
  REQUIRE(seen.good);
  REQUIRE(seen.end == SIZE_MAX);
  REQUIRE(basis == four());
}

TEST_CASE("an answer that is no candidate is refused") {
  schedule::Basis basis = four();
  const auto wrong = [](void*, const tbcclTunerQuestion_t* q) { return q->candidates; };
  const Status s = selection::ask_tuner(wrong, nullptr, &basis);
  REQUIRE(s.code() == tbcclInvalidArgument);
  REQUIRE(s.text().find("candidates") != std::string::npos);
}
