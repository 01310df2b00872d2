// Length-prefixed fields of the set-up exchange, little-endian. Reading checks every bound.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tbccl::comm {

class Writer {
 public:
  Writer& number(uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Writer& text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  // False, once and for all later reads, when the bytes do not hold what is asked for.
  bool good() const { return good_; }
  bool finished() const { return good_ && bytes_.empty(); }

  uint64_t number() {
    if (!good_ || bytes_.size() < 8) return fail(), 0;
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[i])) << (8 * i);
    }
    bytes_.remove_prefix(8);
    return value;
  }
  std::string text() {
    const uint64_t length = number();
    if (!good_ || length > bytes_.size()) return fail(), std::string();
    std::string value(bytes_.substr(0, length));
    bytes_.remove_prefix(length);
    return value;
  }

 private:
  void fail() { good_ = false; }
  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace tbccl::comm
