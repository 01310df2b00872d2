// What TBCCL_ALGO says about one operation (grammar: see check_overrides in selection.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "base/status.h"
#include "tbccl/tbccl.h"

namespace tbccl::selection {

// "all-reduce", for messages.
const char* operation_name(tbcclOperation_t operation);
// "allreduce": the word for it in TBCCL_ALGO and in tuning files.
const char* operation_key(tbcclOperation_t operation);
// By key; case, '-' and '_' do not matter. False: no operation with a choice of algorithms.
bool find_operation(std::string_view written, tbcclOperation_t* operation);
// Likewise an algorithm, by its name in the table; nullptr: there is none.
const algorithms::Algorithm* find_written(std::string_view written);
// Those with a choice of algorithms.
std::vector<tbcclOperation_t> operations();
// "allreduce, broadcast, ...", for messages.
std::string operation_keys();

// What counts for one operation and size.
struct Override {
  bool given = false;                   // something is said of this size
  bool exclude = false;                 // the names are avoided, rather than used
  std::vector<std::string_view> names;  // views into the grammar
  bool allows(std::string_view name) const;
};

Status override_for(std::string_view grammar, tbcclOperation_t operation, uint64_t bytes,
                    Override* result);

}  // namespace tbccl::selection
