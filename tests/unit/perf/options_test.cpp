// The command line of tbccl-perf.
#include "perf/options.h"

#include <string>
#include <vector>

#include "unit/catch.h"

using namespace tbccl::perf;

namespace {

Parsed parse(std::vector<std::string> words, Options* options) {
  words.insert(words.begin(), "tbccl-perf");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return parse_options(static_cast<int>(words.size()), pointers.data(), options);
}

}  // namespace

TEST_CASE("Defaults are those of nccl-tests") {
  Options o;
  REQUIRE(parse({"all_reduce"}, &o) == Parsed::kRun);
  REQUIRE(o.collective == "all_reduce");
  REQUIRE(o.sizes() == std::vector<uint64_t>{32u << 20});
  REQUIRE(o.iterations == 20);
  REQUIRE(o.warmup == 1);
  REQUIRE(o.checks == 1);
  REQUIRE(o.average == 1);
  REQUIRE(o.types.size() == 1);
  REQUIRE(std::string(o.types[0].name) == "float");
  REQUIRE(std::string(o.operators[0].name) == "sum");
}

TEST_CASE("Sizes, steps and factors") {
  Options o;
  REQUIRE(parse({"all_reduce_perf", "-b", "16", "-e", "1K", "-f", "4"}, &o) == Parsed::kRun);
  REQUIRE(o.collective == "all_reduce");
  REQUIRE(o.sizes() == std::vector<uint64_t>{16, 64, 256, 1024});
  Options p;
  REQUIRE(parse({"broadcast", "-b", "1K", "-e", "4K", "-i", "1k"}, &p) == Parsed::kRun);
  REQUIRE(p.sizes() == std::vector<uint64_t>{1024, 2048, 3072, 4096});
  Options q;
  REQUIRE(parse({"sendrecv", "-b", "64M"}, &q) == Parsed::kRun);
  REQUIRE(q.sizes() == std::vector<uint64_t>{64u << 20});
  Options zero;
  REQUIRE(parse({"all_reduce", "-b", "0", "-e", "0"}, &zero) == Parsed::kRun);
  REQUIRE(zero.sizes() == std::vector<uint64_t>{0});
  uint64_t bytes = 0;
  REQUIRE(parse_size("1.5K", &bytes));
  REQUIRE(bytes == 1536);
  for (const char* text : {"", "K", "1X", "1KB", "-1", "nan", "1e30"}) {
    REQUIRE_FALSE(parse_size(text, &bytes));
  }
}

TEST_CASE("Types, operators and roots") {
  Options o;
  REQUIRE(parse({"all_reduce", "-d", "half,int8", "-o", "sum,max"}, &o) == Parsed::kRun);
  REQUIRE(o.types.size() == 2);
  REQUIRE(o.operators.size() == 2);
  Options all;
  REQUIRE(parse({"all_reduce", "-d", "all", "-o", "all"}, &all) == Parsed::kRun);
  REQUIRE(all.types.size() == all_types().size());
  REQUIRE(all.operators.size() == all_operators().size());
  Options root;
  REQUIRE(parse({"broadcast", "-r", "-1"}, &root) == Parsed::kRun);
  REQUIRE(root.root == -1);
  Options every;
  REQUIRE(parse({"broadcast", "-r", "all"}, &every) == Parsed::kRun);
  REQUIRE(every.root == -1);
  Options mixed;  // illegal pairs of a list with `all` are left out
  REQUIRE(parse({"all_reduce", "-d", "all", "-o", "band"}, &mixed) == Parsed::kRun);
}

TEST_CASE("What makes no sense is refused") {
  const std::vector<std::vector<std::string>> lines = {
      {},
      {"all_gatherings"},
      {"all_reduce", "-d", "float", "-o", "band"},
      {"all_reduce", "-d", "complex64", "-o", "min"},
      {"all_reduce", "-d", "float9"},
      {"all_reduce", "-o", "xor"},
      {"all_reduce", "-b", "2K", "-e", "1K"},
      {"all_reduce", "-b", "1Q"},
      {"all_reduce", "-b", "1", "-e", "2", "-i", "0"},
      {"all_reduce", "-R", "2"},
      {"all_reduce", "-t", "2"},
      {"all_reduce", "-G", "1"},
      {"all_reduce", "-D", "1"},
      {"all_reduce", "-V", "1"},
      {"all_reduce", "-x", "1"},
      {"all_reduce", "-p", "1"},
      {"all_reduce", "-y", "1"},
      {"all_reduce", "-M", "1"},
      {"all_reduce", "-a", "4"},
      {"all_reduce", "-n", "0"},
      {"all_reduce", "-I", "1", "-n", "2", "-K", "2"},
      {"broadcast", "-r", "x"},
      {"all_reduce", "--no-such-option"},
  };
  for (const auto& line : lines) {
    Options o;
    std::string text;
    for (const std::string& word : line) text += word + " ";
    CAPTURE(text);
    REQUIRE(parse(line, &o) == Parsed::kExitError);
  }
}

TEST_CASE("Legal pairs are those of the header") {
  const auto legal = [](const char* type, const char* op) {
    return is_legal(*find_type(type), find_operator(op)->op);
  };
  REQUIRE(legal("int16", "lxor"));
  REQUIRE(legal("uint64", "avg"));
  REQUIRE(legal("f8e4m3", "mulsum"));
  REQUIRE_FALSE(legal("half", "bxor"));
  REQUIRE_FALSE(legal("double", "land"));
  REQUIRE(legal("complex128", "prod"));
  REQUIRE_FALSE(legal("complex64", "max"));
  REQUIRE(legal("bool", "max"));
  REQUIRE(legal("bool", "band"));
  REQUIRE_FALSE(legal("bool", "sum"));
  REQUIRE_FALSE(legal("bool", "mulsum"));
}

TEST_CASE("Modes that predict or compare go over all collectives and sizes unless told otherwise") {
  Options both;
  REQUIRE(parse({"all_reduce", "--explain", "--simulate", "ring:4"}, &both) == Parsed::kExitError);
  REQUIRE(parse({"--matrix", "--check-selection"}, &both) == Parsed::kExitError);
  Options matrix;
  REQUIRE(parse({"--matrix"}, &matrix) == Parsed::kRun);
  REQUIRE(matrix.collective.empty());
  REQUIRE(matrix.sizes().front() == 8);
  REQUIRE(matrix.sizes().back() == 1u << 30);
  Options simulate;
  REQUIRE(parse({"broadcast", "--simulate", "ring:8,k=2", "-b", "1M", "--steps", "3"}, &simulate) ==
          Parsed::kRun);
  REQUIRE(simulate.simulate == "ring:8,k=2");
  REQUIRE(simulate.steps == 3);
  REQUIRE(simulate.sizes() == std::vector<uint64_t>{1u << 20});
  Options check;
  REQUIRE(parse({"--check-selection", "-g", "2"}, &check) == Parsed::kRun);
  REQUIRE(check.step_factor == 2);
  REQUIRE(check.sizes().size() > 15);
  Options tune;
  REQUIRE(parse({"--tune", "file.json"}, &tune) == Parsed::kRun);
  REQUIRE(tune.tune == "file.json");
  REQUIRE(tune.step_factor == 4);
  Options nothing;
  REQUIRE(parse({"-b", "8"}, &nothing) == Parsed::kExitError);
}
