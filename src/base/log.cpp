#include "base/log.h"

#include <cstdlib>
#include <new>

#include "base/formatted.h"
#include "base/log_sink.h"

namespace tbccl::log {
namespace {

// Never destroyed: threads and destructors may log until the process is gone.
const Sink& sink() noexcept {
  alignas(Sink) static unsigned char storage[sizeof(Sink)];
  static const Sink* const instance =
      new (storage) Sink(std::getenv("TBCCL_DEBUG"), std::getenv("TBCCL_DEBUG_FILE"));
  return *instance;
}

}  // namespace

bool enabled(Level level) noexcept { return sink().enabled(level); }

void write(Level level, std::string_view text) noexcept { sink().write(level, text); }

void write_formatted(Level level, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    write(level, formatted_args(format, args));
  } catch (...) {
    // Out of memory: the unformatted text still says which line it was.
    write(level, std::string_view(format.data(), format.size()));
  }
}

}  // namespace tbccl::log
