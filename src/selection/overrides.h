// What TBCCL_ALGO says about one operation (grammar: see check_overrides in selection.h).
#pragma once

#include <string_view>

#include "base/status.h"
#include "tbccl/tbccl.h"

namespace tbccl::selection {

// "all-reduce", for messages.
const char* operation_name(tbcclOperation_t operation);

// The section that counts for one operation; views into the grammar.
struct Override {
  bool given = false;
  bool exclude = false;
  std::string_view list;  // names, separated by commas
  bool allows(std::string_view name) const;
};

Status override_for(std::string_view grammar, tbcclOperation_t operation, Override* result);

}  // namespace tbccl::selection
