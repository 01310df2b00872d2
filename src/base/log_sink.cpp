#include "base/log_sink.h"

#include <fcntl.h>
#include <pthread.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

namespace tbccl::log {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"ERROR", "WARN", "INFO", "TRACE"};
constexpr int kNone = -1;
constexpr int kNoSuchLevel = -2;

bool same_word(std::string_view text, std::string_view upper) {
  if (text.size() != upper.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c) != upper[i]) return false;
  }
  return true;
}

unsigned long long thread_number() {
#if defined(__APPLE__)
  uint64_t id = 0;
  pthread_threadid_np(nullptr, &id);
  return id;
#elif defined(__linux__)
  return static_cast<unsigned long long>(syscall(SYS_gettid));
#else
  return 0;
#endif
}

}  // namespace

int parse_level(std::string_view name) noexcept {
  if (same_word(name, "NONE")) return kNone;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (same_word(name, kNames[i])) return static_cast<int>(i);
  }
  return kNoSuchLevel;
}

bool expand_path(std::string_view pattern, std::string_view host, long pid, char* out,
                 size_t out_bytes) noexcept {
  char number[24];
  const int digits = std::snprintf(number, sizeof number, "%ld", pid);
  const std::string_view pid_text(number, static_cast<size_t>(digits));
  size_t used = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    std::string_view piece = pattern.substr(i, 1);
    if (pattern[i] == '%' && i + 1 < pattern.size()) {
      const char next = pattern[i + 1];
      if (next == 'h' || next == 'p' || next == '%') {
        piece = next == 'h' ? host : next == 'p' ? pid_text : std::string_view("%");
        ++i;
      }
    }
    if (piece.size() >= out_bytes - used) return false;
    std::memcpy(out + used, piece.data(), piece.size());
    used += piece.size();
  }
  if (used >= out_bytes) return false;
  out[used] = '\0';
  return true;
}

Sink::Sink(const char* level, const char* file) noexcept {
  if (gethostname(host_.data(), host_.size() - 1) != 0 || host_[0] == '\0') {
    std::strcpy(host_.data(), "localhost");
  }
  if (char* dot = std::strchr(host_.data(), '.')) *dot = '\0';
  if (file != nullptr && *file != '\0') open_file(file);
  if (level == nullptr || *level == '\0') return;
  const int parsed = parse_level(level);
  if (parsed != kNoSuchLevel) {
    level_ = parsed;
    return;
  }
  char text[160];
  const int length = std::snprintf(text, sizeof text,
                                   "TBCCL_DEBUG=%.60s is no level: give NONE, ERROR, WARN, INFO or "
                                   "TRACE; going on with WARN",
                                   level);
  write(Level::kWarn, std::string_view(text, static_cast<size_t>(length)));
}

Sink::~Sink() {
  if (descriptor_ != 2) close(descriptor_);
}

void Sink::open_file(const char* pattern) noexcept {
  char path[PATH_MAX];
  const char* reason = "the path is too long";
  if (expand_path(pattern, host_.data(), getpid(), path, sizeof path)) {
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    // If stderr was closed the file may get its number; then there is nothing to close later.
    if (descriptor >= 0) {
      descriptor_ = descriptor;
      return;
    }
    reason = std::strerror(errno);
  }
  char text[512];
  const int length = std::snprintf(
      text, sizeof text, "TBCCL_DEBUG_FILE=%.300s cannot be opened (%.80s): logging to stderr",
      pattern, reason);
  write(Level::kWarn, std::string_view(text, static_cast<size_t>(length)));
}

void Sink::write(Level level, std::string_view text) const noexcept {
  if (!enabled(level)) return;
  const int saved = errno;
  constexpr std::string_view kCut = " [...]";
  char line[kMaxLine];
  const int prefix = std::snprintf(line, sizeof line, "%s:%ld:%llu TBCCL %s ", host_.data(),
                                   static_cast<long>(getpid()), thread_number(),
                                   kNames[static_cast<size_t>(level)].data());
  size_t used = static_cast<size_t>(prefix);
  const bool cut = text.size() > sizeof line - used - 1;
  const size_t take = cut ? sizeof line - used - 1 - kCut.size() : text.size();
  for (const char c : text.substr(0, take)) {
    const auto byte = static_cast<unsigned char>(c);
    line[used++] = byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  if (cut) {
    std::memcpy(line + used, kCut.data(), kCut.size());
    used += kCut.size();
  }
  line[used++] = '\n';
  // A line that cannot be written is lost: there is nobody left to tell.
  ssize_t written;
  do {
    written = ::write(descriptor_, line, used);
  } while (written < 0 && errno == EINTR);
  errno = saved;
}

}  // namespace tbccl::log
