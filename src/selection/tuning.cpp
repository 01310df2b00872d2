// Read by events rather than as a tree, because a tree does not know its lines: the path to a value
// is kept, and every leaf is stored, or refused, when it comes.
#include "selection/tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "algorithms/algorithms.h"
#include "base/formatted.h"
#include "selection/overrides.h"

namespace tbccl::selection {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kVersion = 1;
constexpr uint64_t kMostRanks = 1 << 20;
constexpr size_t kMostChoices = 10'000;
constexpr double kMicrosecond = 1e3;
constexpr double kMostNs = 1e12;

// Counts lines as the parser goes.
struct Counting {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at;
  size_t* line;
  const char& operator*() const { return *at; }
  Counting& operator++() {
    *line += *at == '\n' ? 1 : 0;
    ++at;
    return *this;
  }
  bool operator==(const Counting& other) const { return at == other.at; }
  bool operator!=(const Counting& other) const { return at != other.at; }
};

// A cost by its place in the file.
struct Field {
  const char* path;
  double unit;  // of the file, in units of the basis
  bool zero_allowed;
  double* (*find)(schedule::Basis&);
};
using schedule::Basis;
constexpr std::array kFields = {
    Field{"costs/local/alpha_us", kMicrosecond, true, [](Basis& b) { return &b.local.alpha; }},
    Field{"costs/local/rate", 1, false, [](Basis& b) { return &b.local.rate; }},
    Field{"costs/network/alpha_us", kMicrosecond, true, [](Basis& b) { return &b.network.alpha; }},
    Field{"costs/network/rate", 1, false, [](Basis& b) { return &b.network.rate; }},
    Field{"costs/cable/alpha_us", kMicrosecond, true, [](Basis& b) { return &b.cable.alpha; }},
    Field{"costs/cable/rate", 1, false, [](Basis& b) { return &b.cable.rate; }},
    Field{"costs/turn/alpha_us", kMicrosecond, true, [](Basis& b) { return &b.turn.alpha; }},
    Field{"costs/turn/rate", 1, false, [](Basis& b) { return &b.turn.rate; }},
    Field{"costs/gamma", 1, true, [](Basis& b) { return &b.gamma; }},
    Field{"costs/cpu_message_us", kMicrosecond, true, [](Basis& b) { return &b.cpu_message; }},
    Field{"costs/cpu_byte", 1, true, [](Basis& b) { return &b.cpu_byte; }},
};
constexpr std::array kObjects = {
    "", "costs", "costs/local", "costs/network", "costs/cable", "costs/turn", "choices/"};

class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(const std::string& source, const size_t& line) : source_(source), line_(line) {}

  // What the parser meant to say, if it stopped.
  Status status;
  Basis costs;
  std::vector<const Field*> given;
  std::vector<schedule::Preference> choices;
  bool versioned = false;

  bool null() override { return refuse("is null"); }
  bool boolean(bool) override { return refuse("is true or false"); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    const std::string path = here();
    if (path == "tbccl_tuning") {
      versioned = value == kVersion;
      return versioned || refuse("is not 1, the only version there is");
    }
    if (path == "choices/ranks") return ranks(value);
    if (path == "choices/from") return choices.back().from = value, true;
    if (path == "choices/to") return choices.back().to = value, true;
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    const std::string path = here();
    if (path == "choices/operation") return operation(value);
    if (path == "choices/algorithm") return algorithm(value);
    return refuse("is a text");
  }
  bool binary(binary_t&) override { return refuse("is binary"); }
  bool key(string_t& name) override {
    path_.back() = name;
    return true;
  }
  bool start_object(std::size_t) override {
    const std::string path = here();
    if (std::find(kObjects.begin(), kObjects.end(), path) == kObjects.end())
      return refuse("is an object");
    if (path == "choices/") {
      if (choices.size() == kMostChoices) return refuse("has more than 10000 entries");
      choices.emplace_back();
      has_operation_ = false;
    }
    path_.emplace_back();
    return true;
  }
  bool end_object() override {
    path_.pop_back();
    return here() != "choices/" || complete();
  }
  bool start_array(std::size_t) override {
    if (here() != "choices") return refuse("is a list");
    path_.emplace_back();
    return true;
  }
  bool end_array() override {
    path_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return fail("is not JSON here");
  }

 private:
  bool ranks(uint64_t value) {
    if (value < 1 || value > kMostRanks) return fail(formatted("\"ranks\" is {}", value));
    choices.back().ranks = static_cast<int32_t>(value);
    return true;
  }

  // "costs/local/rate"; entries of the list have an empty name.
  std::string here() const {
    std::string path;
    for (size_t i = 0; i < path_.size(); i++) {
      if (i > 0 && !(i > 1 && path_[i - 1].empty())) path += "/";
      path += path_[i];
    }
    return path;
  }

  bool fail(const std::string& what) {
    status = {tbcclInvalidArgument, formatted("{}, line {}: {}", source_, line_, what)};
    return false;
  }
  bool refuse(const char* what) {
    const std::string path = here();
    for (const Field& f : kFields)
      if (path == f.path) return fail(formatted("\"{}\" {}, not a number", path, what));
    return fail(
        formatted("\"{}\" {}, which is not expected there; see the documentation of "
                  "tuning files, or write one by tbccl-perf --tune",
                  path, what));
  }

  bool number(double value) {
    const std::string path = here();
    for (const Field& f : kFields) {
      if (path != f.path) continue;
      const double scaled = value * f.unit;
      if (!std::isfinite(scaled) || scaled < 0 || scaled > kMostNs ||
          (scaled == 0 && !f.zero_allowed))
        return fail(formatted("\"{}\" is {}, which is out of range", path, value));
      *f.find(costs) = scaled;
      given.push_back(&f);
      return true;
    }
    return refuse("is a number");
  }

  bool operation(const std::string& text) {
    tbcclOperation_t found = tbcclOpAllReduce;
    if (!find_operation(text, &found))
      return fail(formatted("\"{}\" is not an operation with a choice of algorithms; possible: {}",
                            text, operation_keys()));
    choices.back().operation = static_cast<int32_t>(found);
    has_operation_ = true;
    return true;
  }

  bool algorithm(const std::string& text) {
    const algorithms::Algorithm* found = find_written(text);
    if (found == nullptr) return fail(formatted("\"{}\" is not an algorithm", text));
    choices.back().algorithm = found->name;
    return true;
  }

  bool complete() {
    const schedule::Preference& p = choices.back();
    if (!has_operation_ || p.algorithm.empty())
      return fail("a choice has no \"operation\" or no \"algorithm\"");
    const auto operation = static_cast<tbcclOperation_t>(p.operation);
    if (!algorithms::find(p.algorithm)->serves(operation))
      return fail(
          formatted("\"{}\" is not an algorithm for {}", p.algorithm, operation_name(operation)));
    return p.from <= p.to || fail(formatted("\"from\" {} is more than \"to\" {}", p.from, p.to));
  }

  const std::string& source_;
  const size_t& line_;
  std::vector<std::string> path_;
  bool has_operation_ = false;
};

Status read(const std::string& text, const std::string& source, Basis* basis) {
  size_t line = 1;
  Reader reader(source, line);
  const Counting begin{text.data(), &line}, end{text.data() + text.size(), &line};
  if (!Json::sax_parse(begin, end, &reader)) return reader.status;
  if (!reader.versioned)
    return {tbcclInvalidArgument,
            formatted("{}: has no \"tbccl_tuning\": 1, so it is not a tuning file", source)};
  if (basis == nullptr) return {};
  for (const Field* f : reader.given) *f->find(*basis) = *f->find(reader.costs);
  basis->preferences.insert(basis->preferences.end(), reader.choices.begin(), reader.choices.end());
  return {};
}

std::string cost_text(const schedule::LinkCost& cost) {
  return formatted("{{\"alpha_us\": {:.6g}, \"rate\": {:.6g}}}", cost.alpha / kMicrosecond,
                   cost.rate);
}

}  // namespace

Status apply_tuning(const std::string& text, const std::string& source, schedule::Basis* basis) {
  return read(text, source, basis);
}

Status check_tuning(const std::string& text, const std::string& source) {
  return read(text, source, nullptr);
}

std::string tuning_text(const schedule::Basis& basis) {
  std::string text = formatted(
      "{{\"tbccl_tuning\": {},\n \"costs\": {{\"local\": {},\n           \"network\": {},\n"
      "           \"cable\": {},\n           \"turn\": {},\n"
      "           \"gamma\": {:.6g}, \"cpu_message_us\": {:.6g}, \"cpu_byte\": {:.6g}}},\n"
      " \"choices\": [",
      kVersion, cost_text(basis.local), cost_text(basis.network), cost_text(basis.cable),
      cost_text(basis.turn), basis.gamma, basis.cpu_message / kMicrosecond, basis.cpu_byte);
  const char* separator = "\n   ";
  for (const schedule::Preference& p : basis.preferences) {
    text += formatted("{}{{\"operation\": \"{}\", ", separator,
                      operation_key(static_cast<tbcclOperation_t>(p.operation)));
    if (p.ranks != 0) text += formatted("\"ranks\": {}, ", p.ranks);
    text += formatted("\"from\": {}, ", p.from);
    if (p.to != UINT64_MAX) text += formatted("\"to\": {}, ", p.to);
    text += formatted("\"algorithm\": \"{}\"}}", p.algorithm);
    separator = ",\n   ";
  }
  return text + "]}\n";
}

}  // namespace tbccl::selection
