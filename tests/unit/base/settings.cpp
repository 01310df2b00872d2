#include "base/settings.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/variables.h"
#include "unit/catch.h"

using namespace tbccl;

namespace {

// Sets a variable of this process for one scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) {
      had_ = true;
      before_ = before;
    }
    setenv(name, value, 1);
  }
  ~Variable() {
    if (had_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

void check_equal(const Settings& a, const Settings& b) {
  REQUIRE(a.timeout_ns == b.timeout_ns);
  REQUIRE(a.connect_timeout_ns == b.connect_timeout_ns);
  REQUIRE(a.deterministic == b.deterministic);
  REQUIRE(a.algorithms == b.algorithms);
  REQUIRE(a.transports == b.transports);
  REQUIRE(a.cabling == b.cabling);
  REQUIRE(a.rendezvous == b.rendezvous);
  REQUIRE(a.rank == b.rank);
  REQUIRE(a.size == b.size);
  REQUIRE(a.socket_interface == b.socket_interface);
  REQUIRE(a.port_range == b.port_range);
  REQUIRE(a.secret == b.secret);
  REQUIRE(a.comm_name == b.comm_name);
  REQUIRE(a.tuning == b.tuning);
  REQUIRE(a.tuner == b.tuner);
  REQUIRE(a.tuner_context == b.tuner_context);
  REQUIRE(a.spin_ns == b.spin_ns);
  REQUIRE(a.yield_ns == b.yield_ns);
  REQUIRE(a.segment_bytes == b.segment_bytes);
}

bool mentions(const Status& status, const std::string& text) {
  return status.text().find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("settings: every variable reaches its field") {
  Settings s;
  const std::vector<std::pair<const char*, const char*>> values = {
      {"TBCCL_TIMEOUT", "1.5"},
      {"TBCCL_CONNECT_TIMEOUT", "0.25"},
      {"TBCCL_DETERMINISTIC", "1"},
      {"TBCCL_ALGO", "allreduce:ring"},
      {"TBCCL_TRANSPORT", "^verbs"},
      {"TBCCL_CABLING", "/tmp/c.json"},
      {"TBCCL_TUNING", "/tmp/t.json"},
      {"TBCCL_RENDEZVOUS", "[::1]:999"},
      {"TBCCL_RANK", "3"},
      {"TBCCL_SIZE", "4"},
      {"TBCCL_SOCKET_IFNAME", "en5"},
      {"TBCCL_PORT_RANGE", "5000-5010"},
      {"TBCCL_SECRET", "s3cret"},
      {"TBCCL_SPIN_US", "0.5"},
      {"TBCCL_YIELD_US", "7"},
      {"TBCCL_SEGMENT", "64K"}};
  for (const auto& [name, value] : values) {
    INFO(name);
    REQUIRE(set_variable(name, value, &s).ok());
  }
  Settings expected;
  expected.timeout_ns = 1'500'000'000;
  expected.connect_timeout_ns = 250'000'000;
  expected.deterministic = true;
  expected.algorithms = "allreduce:ring";
  expected.transports = "^verbs";
  expected.cabling = "/tmp/c.json";
  expected.tuning = "/tmp/t.json";
  expected.rendezvous = "[::1]:999";
  expected.rank = 3;
  expected.size = 4;
  expected.socket_interface = "en5";
  expected.port_range = "5000-5010";
  expected.secret = "s3cret";
  expected.spin_ns = 500;
  expected.yield_ns = 7'000;
  expected.segment_bytes = 65536;
  check_equal(s, expected);
}

TEST_CASE("settings: the defaults in the table are the defaults of the structure") {
  const std::string table = Settings::describe();
  Settings s;
  s.timeout_ns = s.connect_timeout_ns = s.spin_ns = s.yield_ns = 1;
  s.deterministic = true;
  s.segment_bytes = 17;
  size_t rows = 0;
  std::string name;
  for (size_t start = 0; start < table.size();) {
    const size_t end = table.find('\n', start);
    REQUIRE(end != std::string::npos);
    const std::string line = table.substr(start, end - start);
    start = end + 1;
    if (line.rfind("TBCCL_", 0) == 0) {
      name = line.substr(0, line.find(' '));
      ++rows;
      continue;
    }
    const std::string mark = "(default: ";
    const size_t at = line.find(mark);
    REQUIRE(at != std::string::npos);
    const std::string value = line.substr(at + mark.size(), line.size() - at - mark.size() - 1);
    INFO(name << " default " << value);
    if (value != "not set") REQUIRE(set_variable(name, value, &s).ok());
  }
  REQUIRE(rows == 19);
  check_equal(s, Settings{});
}

TEST_CASE("settings: malformed and out-of-range values name the variable, the value, the remedy") {
  const std::vector<std::pair<const char*, const char*>> bad = {
      {"TBCCL_TIMEOUT", "-1"},
      {"TBCCL_TIMEOUT", "ten"},
      {"TBCCL_TIMEOUT", "1e3"},
      {"TBCCL_TIMEOUT", "1000000001"},
      {"TBCCL_CONNECT_TIMEOUT", "0"},
      {"TBCCL_CONNECT_TIMEOUT", "0.0000000001"},
      {"TBCCL_DETERMINISTIC", "2"},
      {"TBCCL_DETERMINISTIC", "yes"},
      {"TBCCL_RANK", "-1"},
      {"TBCCL_RANK", "1.0"},
      {"TBCCL_RANK", "1048576"},
      {"TBCCL_SIZE", "0"},
      {"TBCCL_SIZE", "4 "},
      {"TBCCL_PORT_RANGE", "5000"},
      {"TBCCL_PORT_RANGE", "0-10"},
      {"TBCCL_PORT_RANGE", "10-9"},
      {"TBCCL_PORT_RANGE", "1-65536"},
      {"TBCCL_PORT_RANGE", "1-2-3"},
      {"TBCCL_PORT_RANGE", "1.0-2"},
      {"TBCCL_SPIN_US", "x"},
      {"TBCCL_YIELD_US", "-0"},
      {"TBCCL_SEGMENT", "15"},
      {"TBCCL_SEGMENT", "2G"},
      {"TBCCL_SEGMENT", "1.5K"}};
  for (const auto& [name, value] : bad) {
    INFO(name << "=" << value);
    Settings s;
    const Status status = set_variable(name, value, &s);
    REQUIRE(status.code() == tbcclInvalidArgument);
    REQUIRE(mentions(status, std::string(name) + "=" + value));
    REQUIRE(mentions(status, "give "));
    check_equal(s, Settings{});
  }
  Settings s;
  REQUIRE(set_variable("TBCCL_NONSENSE", "1", &s).code() == tbcclInvalidArgument);
  REQUIRE(set_variable("TBCCL_TIMEOUT", "0", &s).ok());  // none
  REQUIRE(s.timeout_ns == 0);
}

TEST_CASE("settings: the environment is read, empty values mean not set") {
  const Variable timeout("TBCCL_TIMEOUT", "2");
  const Variable spin("TBCCL_SPIN_US", "");
  Settings s;
  REQUIRE(Settings::from_environment(&s).ok());
  REQUIRE(s.timeout_ns == 2'000'000'000);
  REQUIRE(s.spin_ns == Settings{}.spin_ns);
  const Variable size("TBCCL_SIZE", "many");
  const Status status = Settings::from_environment(&s);
  REQUIRE(status.code() == tbcclInvalidArgument);
  REQUIRE(mentions(status, "TBCCL_SIZE=many"));
}

TEST_CASE("settings: misspelt variables are found and the closest one named") {
  REQUIRE(closest_variable("TBCCL_TIMOUT") == "TBCCL_TIMEOUT");
  REQUIRE(closest_variable("TBCCL_ALGORITHM") == "");
  REQUIRE(closest_variable("TBCCL_ALGOS") == "TBCCL_ALGO");
  REQUIRE(closest_variable("TBCCL_RENDEVOUZ") == "TBCCL_RENDEZVOUS");
  REQUIRE(closest_variable("TBCCL_CONNECTTIMEOUT") == "TBCCL_CONNECT_TIMEOUT");
  REQUIRE(closest_variable("TBCCL_QUITE_SOMETHING_ELSE") == "");
  REQUIRE(closest_variable("TBCCL_" + std::string(100'000, 'A')) == "");

  const char* environment[] = {"PATH=/bin",       "TBCCL_TIMOUT=3", "TBCCL_RANK=1",
                               "TBCCL_TESTS_X=1", "TBCCL_DEBUG=x",  "TBCCL_DEBUG_FILE=y",
                               "TBCCL_FOOBARBAZ", "XTBCCL_RANK=1",  nullptr};
  const std::vector<std::string> texts = unknown_variables(environment);
  REQUIRE(texts.size() == 2);
  REQUIRE(texts[0].find("TBCCL_TIMOUT") == 0);
  REQUIRE(texts[0].find("TBCCL_TIMEOUT meant?") != std::string::npos);
  REQUIRE(texts[1].find("TBCCL_FOOBARBAZ") == 0);
  REQUIRE(texts[1].find("meant") == std::string::npos);
  REQUIRE(unknown_variables(nullptr).empty());
}

TEST_CASE("settings: fields of a configuration override, what is not set does not") {
  Settings s;
  REQUIRE(Settings::apply(nullptr, &s).ok());
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  REQUIRE(Settings::apply(&config, &s).ok());
  check_equal(s, Settings{});

  s.algorithms = "from the environment";
  config.timeoutMs = 0;
  config.connectTimeoutMs = 1500;
  config.deterministic = 1;
  config.transports = "tcp";
  config.cabling = "file";
  config.commName = "name";
  REQUIRE(Settings::apply(&config, &s).ok());
  REQUIRE(s.timeout_ns == 0);
  REQUIRE(s.connect_timeout_ns == 1'500'000'000);
  REQUIRE(s.deterministic);
  REQUIRE(s.algorithms == "from the environment");
  REQUIRE(s.transports == "tcp");
  REQUIRE(s.cabling == "file");
  REQUIRE(s.comm_name == "name");
  config.deterministic = 0;
  REQUIRE(Settings::apply(&config, &s).ok());
  REQUIRE_FALSE(s.deterministic);
}

TEST_CASE("settings: a caller's older, smaller structure is not read past its end") {
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  config.timeoutMs = 5;
  config.size = offsetof(tbcclConfig_t, connectTimeoutMs);
  // Exactly as large as it says: the address sanitizer sees any read past it.
  std::vector<unsigned char> old(config.size);
  std::memcpy(old.data(), &config, config.size);
  Settings s;
  REQUIRE(Settings::apply(reinterpret_cast<const tbcclConfig_t*>(old.data()), &s).ok());
  REQUIRE(s.timeout_ns == 5'000'000);
  REQUIRE(s.connect_timeout_ns == Settings{}.connect_timeout_ns);

  struct {
    tbcclConfig_t known = TBCCL_CONFIG_INITIALIZER;
    int64_t from_the_future = 99;
  } newer;
  newer.known.size = sizeof newer;
  newer.known.timeoutMs = 6;
  REQUIRE(Settings::apply(&newer.known, &s).ok());
  REQUIRE(s.timeout_ns == 6'000'000);
}

TEST_CASE("settings: wrong configurations change nothing") {
  const auto check = [](auto change, const std::string& field) {
    tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
    config.commName = "x";
    change(config);
    Settings s;
    const Status status = Settings::apply(&config, &s);
    REQUIRE(status.code() == tbcclInvalidArgument);
    INFO(status.text());
    REQUIRE(mentions(status, field));
    check_equal(s, Settings{});
  };
  check([](tbcclConfig_t& c) { c.magic = 0; }, "TBCCL_CONFIG_INITIALIZER");
  check([](tbcclConfig_t& c) { c.size = 8; }, "TBCCL_CONFIG_INITIALIZER");
  check([](tbcclConfig_t& c) { c.size = sizeof c - 3; }, "TBCCL_CONFIG_INITIALIZER");
  check([](tbcclConfig_t& c) { c.timeoutMs = -1; }, "timeoutMs is -1");
  check([](tbcclConfig_t& c) { c.timeoutMs = INT64_MAX; }, "timeoutMs");
  check([](tbcclConfig_t& c) { c.connectTimeoutMs = 0; }, "connectTimeoutMs is 0");
  check([](tbcclConfig_t& c) { c.deterministic = 2; }, "deterministic is 2");
}
