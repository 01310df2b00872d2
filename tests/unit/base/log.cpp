#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/log_sink.h"
#include "unit/catch.h"

using namespace tbccl;

namespace {

// A directory of its own, removed with the one file that a test makes in it.
class Directory {
 public:
  Directory() {
    char pattern[] = "/tmp/tbccl-log-XXXXXX";
    REQUIRE(mkdtemp(pattern) != nullptr);
    path_ = pattern;
  }
  ~Directory() {
    std::remove(file().c_str());
    rmdir(path_.c_str());
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string file() const { return path_ + "/" + std::to_string(getpid()) + ".log"; }
  std::string pattern() const { return path_ + "/%p.log"; }
  std::vector<std::string> lines() const {
    std::ifstream in(file());
    std::vector<std::string> result;
    for (std::string line; std::getline(in, line);) result.push_back(line);
    return result;
  }

 private:
  std::string path_;
};

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

TEST_CASE("log: levels by name") {
  REQUIRE(log::parse_level("NONE") == -1);
  REQUIRE(log::parse_level("error") == 0);
  REQUIRE(log::parse_level("Warn") == 1);
  REQUIRE(log::parse_level("INFO") == 2);
  REQUIRE(log::parse_level("TRACE") == 3);
  for (const char* bad : {"", "W", "WARNING", "2", " INFO"}) REQUIRE(log::parse_level(bad) == -2);
}

TEST_CASE("log: host and process in the file name") {
  char out[16];
  REQUIRE(log::expand_path("%h.%p", "mac", 42, out, sizeof out));
  REQUIRE(std::string(out) == "mac.42");
  REQUIRE(log::expand_path("a%%%x%", "mac", 42, out, sizeof out));
  REQUIRE(std::string(out) == "a%%x%");
  REQUIRE(log::expand_path("123456789012345", "", 0, out, sizeof out));
  REQUIRE_FALSE(log::expand_path("1234567890123456", "", 0, out, sizeof out));
  REQUIRE_FALSE(log::expand_path("%h%h", "12345678", 0, out, sizeof out));
}

TEST_CASE("log: a line has host, process, thread, level and text") {
  const Directory directory;
  const log::Sink sink("info", directory.pattern().c_str());
  REQUIRE(sink.enabled(log::Level::kInfo));
  REQUIRE_FALSE(sink.enabled(log::Level::kTrace));
  errno = 77;
  sink.write(log::Level::kWarn, "first");
  sink.write(log::Level::kTrace, "not written");
  sink.write(log::Level::kInfo, "two\nlines\tand \x1b[0m a control sequence");
  REQUIRE(errno == 77);
  const auto lines = directory.lines();
  REQUIRE(lines.size() == 2);
  REQUIRE(ends_with(lines[0], " TBCCL WARN first"));
  REQUIRE(lines[0].find(":" + std::to_string(getpid()) + ":") != std::string::npos);
  REQUIRE(ends_with(lines[1], " TBCCL INFO two lines and  [0m a control sequence"));
}

TEST_CASE("log: NONE is silent, nonsense is said and means WARN") {
  const Directory directory;
  {
    const log::Sink sink("NONE", directory.pattern().c_str());
    REQUIRE_FALSE(sink.enabled(log::Level::kError));
    sink.write(log::Level::kError, "nothing");
    REQUIRE(directory.lines().empty());
  }
  const log::Sink sink("LOUD", directory.pattern().c_str());
  REQUIRE(sink.enabled(log::Level::kWarn));
  REQUIRE_FALSE(sink.enabled(log::Level::kInfo));
  REQUIRE(directory.lines().size() == 1);
  REQUIRE(directory.lines()[0].find("TBCCL_DEBUG=LOUD") != std::string::npos);
}

TEST_CASE("log: long texts are cut to one atomic write") {
  const Directory directory;
  const log::Sink sink(nullptr, directory.pattern().c_str());
  sink.write(log::Level::kWarn, std::string(100'000, 'x'));
  sink.write(log::Level::kWarn, "after");
  const auto lines = directory.lines();
  REQUIRE(lines.size() == 2);
  REQUIRE(lines[0].size() == log::kMaxLine - 1);
  REQUIRE(ends_with(lines[0], "x [...]"));
  REQUIRE(ends_with(lines[1], "after"));
  // The longest text that is not cut.
  const size_t prefix = lines[1].size() - 5;
  sink.write(log::Level::kWarn, std::string(log::kMaxLine - 1 - prefix, 'y'));
  REQUIRE(ends_with(directory.lines()[2], "yyy"));
  REQUIRE(directory.lines()[2].size() == log::kMaxLine - 1);
}

TEST_CASE("log: lines of many threads stay whole") {
  const Directory directory;
  const log::Sink sink(nullptr, directory.pattern().c_str());
  constexpr int kThreads = 4, kLines = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&sink, t] {
      for (int i = 0; i < kLines; ++i) {
        sink.write(log::Level::kWarn, "<" + std::to_string(t) + "." + std::to_string(i) + ">" +
                                          std::string(200, static_cast<char>('a' + t)) + "!");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> seen;
  for (const std::string& line : directory.lines()) {
    const size_t open = line.find('<'), close = line.find('>');
    REQUIRE(open != std::string::npos);
    REQUIRE(close != std::string::npos);
    const char letter = static_cast<char>('a' + (line[open + 1] - '0'));
    REQUIRE(line.substr(close + 1) == std::string(200, letter) + "!");
    seen.insert(line.substr(open, close - open));
  }
  REQUIRE(seen.size() == size_t{kThreads * kLines});
}

TEST_CASE("log: a file that cannot be opened leaves stderr") {
  const log::Sink sink("ERROR", "/nonexistent-directory/file");
  REQUIRE(sink.enabled(log::Level::kError));
}

TEST_CASE("log: the process's own logger answers") {
  // Whatever TBCCL_DEBUG is here: what is enabled implies what is more important.
  REQUIRE((!log::enabled(log::Level::kTrace) || log::enabled(log::Level::kInfo)));
  log::trace("a trace line of the tests: {}", 1);
}
