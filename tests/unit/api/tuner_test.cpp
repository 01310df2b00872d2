// Tuners and tuning files, through the whole of the library.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "api/handles.h"
#include "tbccl/tbccl.h"
#include "unit/catch.h"

namespace {

constexpr int kRanks = 3;
constexpr int kCount = 5000;

struct Tuner {
  int asked = 0;
  int answer = -1;
  const char* liked = "";
};

int ask(void* context, const tbcclTunerQuestion_t* question) {
  Tuner& tuner = *static_cast<Tuner*>(context);
  ++tuner.asked;
  for (int i = 0; i < question->candidates; ++i)
    if (std::strcmp(question->algorithms[i], tuner.liked) == 0) return i;
  return tuner.answer;
}

struct Outcome {
  tbcclResult_t made = tbcclInternalError;
  std::string error;
  uint64_t basis = 0;
  size_t preferences = 0;
  bool right = false;
};

// A group whose rank 0 has this configuration; the others have none.
std::vector<Outcome> run(const tbcclConfig_t& first) {
  tbcclUniqueId id;
  REQUIRE(tbcclGetUniqueId(&id) == tbcclSuccess);
  std::vector<Outcome> all(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      Outcome& mine = all[static_cast<size_t>(rank)];
      const tbcclConfig_t none = TBCCL_CONFIG_INITIALIZER;
      tbcclComm_t comm = nullptr;
      mine.made = tbcclCommInitRankConfig(&comm, kRanks, id, rank, rank == 0 ? &first : &none);
      mine.error = tbcclGetLastError(nullptr);
      if (mine.made != tbcclSuccess) return;
      mine.basis = comm->communicator->basis().hash();
      mine.preferences = comm->communicator->basis().preferences.size();
      std::vector<int> data(kCount, rank + 1);
      mine.right = tbcclAllReduce(data.data(), data.data(), kCount, tbcclInt32, tbcclSum, comm,
                                  nullptr) == tbcclSuccess;
      for (int value : data) mine.right = mine.right && value == 6;
      tbcclCommDestroy(comm);
    });
  for (std::thread& thread : threads) thread.join();
  return all;
}

void check_equal(const std::vector<Outcome>& all) {
  for (const Outcome& one : all) {
    INFO(one.error);
    REQUIRE(one.made == tbcclSuccess);
    REQUIRE(one.right);
    REQUIRE(one.basis == all[0].basis);
    REQUIRE(one.preferences == all[0].preferences);
  }
}

}  // namespace

TEST_CASE("all ranks follow rank 0's tuner") {
  Tuner tuner;
  tuner.liked = "twostep";
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  config.tuner = ask;
  config.tunerContext = &tuner;
  const std::vector<Outcome> all = run(config);
  check_equal(all);
  REQUIRE(tuner.asked > 0);
  REQUIRE(all[0].preferences == 1);
}

TEST_CASE("a tuner's wrong answer fails on every rank, with its reason") {
  Tuner tuner;
  tuner.answer = 1000;
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  config.tuner = ask;
  config.tunerContext = &tuner;
  const std::vector<Outcome> all = run(config);
  REQUIRE(all[0].made == tbcclInvalidArgument);
  for (const Outcome& one : all) {
    INFO(one.error);
    REQUIRE(one.made != tbcclSuccess);
    REQUIRE(one.error.find("the tuner answered 1000") != std::string::npos);
  }
}

TEST_CASE("all ranks follow rank 0's tuning file") {
  const std::string path = "unit-api-tuning.json";
  std::ofstream(path) << R"({"tbccl_tuning": 1, "costs": {"gamma": 0.3},
    "choices": [{"operation": "allreduce", "algorithm": "ring"}]})";
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  config.tuning = path.c_str();
  const std::vector<Outcome> all = run(config);
  std::remove(path.c_str());
  check_equal(all);
  REQUIRE(all[0].preferences == 1);
}
