#include "selection/tuning.h"

#include <random>

#include "unit/catch.h"

using namespace tbccl;

namespace {

schedule::Basis sized(int n) {
  schedule::Basis basis;
  basis.size = n;
  return basis;
}

std::string error_of(const std::string& text) {
  schedule::Basis basis = sized(4);
  const Status status = selection::apply_tuning(text, "tuning.json", &basis);
  REQUIRE(status.code() == tbcclInvalidArgument);
  REQUIRE(basis == sized(4));
  REQUIRE_FALSE(selection::check_tuning(text, "tuning.json").ok());
  return status.text();
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a tuning file changes what it names") {
  schedule::Basis basis = sized(4);
  const Status s = selection::apply_tuning(R"({"tbccl_tuning": 1,
    "costs": {"local": {"alpha_us": 2.5}, "cable": {"rate": 4}, "gamma": 0.5, "cpu_message_us": 3},
    "choices": [{"operation": "all_reduce", "algorithm": "Ring", "from": 4096},
                {"operation": "broadcast", "algorithm": "tree", "ranks": 8},
                {"algorithm": "direct", "operation": "broadcast", "ranks": 4, "to": 10}]})",
                                           "x", &basis);
  INFO(s.text());
  REQUIRE(s.ok());
  schedule::Basis expected = sized(4);
  expected.local.alpha = 2500;
  expected.cable.rate = 4;
  expected.gamma = 0.5;
  expected.cpu_message = 3000;
  expected.preferences = {{tbcclOpAllReduce, 4096, UINT64_MAX, "ring", 0},
                          {tbcclOpBroadcast, 0, UINT64_MAX, "tree", 8},
                          {tbcclOpBroadcast, 0, 10, "direct", 4}};
  REQUIRE(basis == expected);
}

TEST_CASE("what is written is read again") {
  schedule::Basis basis = sized(3);
  basis.local = {1'234, 6.5};
  basis.turn = {321, 12};
  basis.cpu_byte = 0.125;
  basis.preferences = {{tbcclOpAllReduce, 0, 100, "direct"},
                       {tbcclOpBroadcast, 101, UINT64_MAX, "chain", 3}};
  schedule::Basis read = sized(3);
  REQUIRE(selection::apply_tuning(selection::tuning_text(basis), "x", &read).ok());
  REQUIRE(read == basis);
}

TEST_CASE("errors name the file, the line and what is wrong") {
  REQUIRE(
      has(error_of("{\"tbccl_tuning\": 1,\n\"costs\": {\n\"gama\": 1}}"), "tuning.json, line 3"));
  REQUIRE(has(error_of("{\"tbccl_tuning\": 1,\n\"costs\": {\n\"gama\": 1}}"), "costs/gama"));
  REQUIRE(has(error_of("{\"tbccl_tuning\": 1,\n oops}"), "line 2"));
  REQUIRE(has(error_of("{\"tbccl_tuning\": 2}"), "version"));
  REQUIRE(has(error_of("{}"), "not a tuning file"));
  REQUIRE(has(error_of("[]"), "list"));
  REQUIRE(has(error_of(""), "line 1"));
  const auto with = [](const std::string& rest) {
    return error_of("{\"tbccl_tuning\": 1,\n" + rest + "}");
  };
  REQUIRE(has(with("\"costs\": {\"local\": {\"rate\": 0}}"), "line 2"));
  REQUIRE(has(with("\"costs\": {\"local\": {\"rate\": -1}}"), "out of range"));
  REQUIRE(has(with("\"costs\": {\"local\": {\"rate\": \"fast\"}}"), "costs/local/rate"));
  REQUIRE(has(with("\"costs\": {\"local\": {\"rate\": {}}}"), "costs/local/rate"));
  REQUIRE(has(with("\"costs\": 3"), "costs"));
  REQUIRE(has(with("\"choices\": [{\"operation\": \"dance\"}]"), "dance"));
  REQUIRE(has(with("\"choices\": [{\"algorithm\": \"rung\"}]"), "rung"));
  REQUIRE(has(with("\"choices\": [{\"operation\": \"broadcast\"}]"), "algorithm"));
  REQUIRE(
      has(with("\"choices\": [{\"operation\": \"broadcast\", \"algorithm\": \"ring\"}]"), "ring"));
  REQUIRE(has(with("\"choices\": [{\"operation\": \"allreduce\", \"algorithm\": \"ring\", "
                   "\"from\": 5, \"to\": 4}]"),
              "from"));
  REQUIRE(has(with("\"choices\": [[]]"), "list"));
}

TEST_CASE("damaged files are refused or harmless") {
  schedule::Basis tuned = sized(3);
  tuned.preferences = {{tbcclOpAllReduce, 0, 100, "direct"}};
  const std::string good = selection::tuning_text(tuned);
  std::mt19937 random(3);
  for (int round = 0; round < 3000; round++) {
    std::string bad = good;
    for (unsigned k = 1 + random() % 3; k > 0; k--)
      bad[random() % bad.size()] = static_cast<char>(random() % 96 + 32);
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    schedule::Basis basis = sized(3);
    if (selection::apply_tuning(bad, "x", &basis).ok()) {
      schedule::Basis copy;
      REQUIRE(schedule::Basis::parse(basis.serialize(), &copy).ok());
    } else {
      REQUIRE(basis == sized(3));
    }
  }
}
