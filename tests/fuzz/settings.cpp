// Names and values of variables, the search for misspelt names, and tbcclConfig_t of any content.
#include "base/settings.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/variables.h"

namespace {

using namespace tbccl;

void check(bool good) {
  if (!good) __builtin_trap();
}

// What every Settings holds, whatever was read into it.
void check_ranges(const Settings& s) {
  constexpr uint64_t kLongest = 1'000'000'000'000'000'000;
  check(s.timeout_ns <= kLongest);
  check(s.connect_timeout_ns > 0 && s.connect_timeout_ns <= kLongest);
  check(s.rank >= -1 && s.rank < 1 << 20);
  check(s.size == -1 || (s.size >= 1 && s.size <= 1 << 20));
  check(s.segment_bytes == 0 || (s.segment_bytes >= 16 && s.segment_bytes <= 1u << 30));
}

void read_variable(std::string_view name, std::string_view value) {
  Settings s;
  const Status status = set_variable(name, value, &s);
  check(status.ok() || status.code() == tbcclInvalidArgument);
  check(status.ok() || !status.text().empty());
  check_ranges(s);
}

// The strings are the only pointers: they stay as the initializer sets them.
void read_config(const uint8_t* data, size_t bytes) {
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  std::memcpy(&config, data, std::min(bytes, offsetof(tbcclConfig_t, algorithms)));
  config.size = std::min(config.size, sizeof config);  // more would be a lie about this object
  Settings s;
  const Status status = Settings::apply(&config, &s);
  check(status.ok() || status.code() == tbcclInvalidArgument);
  check_ranges(s);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  const size_t equals = text.find('=');
  const std::string_view name = std::string_view(text).substr(0, equals);
  const std::string_view value =
      equals == std::string::npos ? std::string_view() : std::string_view(text).substr(equals + 1);
  read_variable(name, value);
  for (const char* known :
       {"TBCCL_TIMEOUT", "TBCCL_CONNECT_TIMEOUT", "TBCCL_DETERMINISTIC", "TBCCL_RANK", "TBCCL_SIZE",
        "TBCCL_PORT_RANGE", "TBCCL_SPIN_US", "TBCCL_YIELD_US", "TBCCL_SEGMENT"}) {
    read_variable(known, value);
  }
  const std::string entry = "TBCCL_" + text;
  const char* environment[] = {entry.c_str(), nullptr};
  check(unknown_variables(environment).size() <= 1);
  read_config(data, bytes);
  return 0;
}
