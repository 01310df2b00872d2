#include "base/formatted.h"

namespace tbccl {

std::string formatted_args(fmt::string_view format, fmt::format_args args) {
  return fmt::vformat(format, args);
}

}  // namespace tbccl
