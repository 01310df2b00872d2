// Errors as values. A Status is cheap when it is ok (no allocation) and otherwise carries the
// code of the C API and one sentence that says what failed, with what, and what to do.
#pragma once

#include <string>
#include <utility>

#include "tbccl/tbccl.h"

namespace tbccl {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(tbcclResult_t code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const { return code_ == tbcclSuccess; }
  tbcclResult_t code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  tbcclResult_t code_ = tbcclSuccess;
  std::string text_;
};

}  // namespace tbccl
