#include "bootstrap/nodelist.h"

namespace tbccl::bootstrap {
namespace {

constexpr size_t kLongestName = 255;
constexpr size_t kMostDigits = 9;

bool digit(char c) { return c >= '0' && c <= '9'; }
bool of_a_name(char c) {
  return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}

std::string_view digits(std::string_view* rest) {
  size_t n = 0;
  while (n < rest->size() && digit((*rest)[n])) ++n;
  const std::string_view result = rest->substr(0, n);
  rest->remove_prefix(n);
  return result.size() <= kMostDigits ? result : std::string_view();
}

// The inside of a bracket, "01-04,7", up to and with "]". Its first number goes to `host`.
bool ranges(std::string_view* rest, std::string* host) {
  for (bool first = true;; first = false) {
    const std::string_view low = digits(rest);
    if (low.empty()) return false;
    if (first) host->append(low);
    if (!rest->empty() && rest->front() == '-') {
      rest->remove_prefix(1);
      const std::string_view high = digits(rest);
      if (high.size() < low.size() || (high.size() == low.size() && high < low)) return false;
    }
    if (rest->empty()) return false;
    const char c = rest->front();
    rest->remove_prefix(1);
    if (c == ']') return true;
    if (c != ',') return false;
  }
}

// One entry, up to a comma or the end.
bool entry(std::string_view* rest, std::string* host) {
  while (!rest->empty() && rest->front() != ',') {
    const char c = rest->front();
    rest->remove_prefix(1);
    if (c == '[') {
      if (!ranges(rest, host)) return false;
    } else if (of_a_name(c)) {
      host->push_back(c);
    } else {
      return false;
    }
    if (host->size() > kLongestName) return false;
  }
  return !host->empty() && host->front() != '-';
}

}  // namespace

bool first_host(std::string_view list, std::string* host) {
  std::string found;
  if (!entry(&list, &found)) return false;
  while (!list.empty()) {
    list.remove_prefix(1);  // the comma
    std::string other;
    if (!entry(&list, &other)) return false;
  }
  *host = found;
  return true;
}

}  // namespace tbccl::bootstrap
