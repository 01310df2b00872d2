// The inside of the configuration table: single variables, and the search for misspelt ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "base/status.h"

namespace tbccl {

// Sets the field of variable `name` from its text, as Settings::from_environment does. An empty
// value leaves the field alone. InvalidArgument for an unknown name or a malformed value; the
// field is then unchanged.
Status set_variable(std::string_view name, std::string_view value, Settings* settings);

// The known variable that is closest to `name` in spelling; empty if none is near.
std::string closest_variable(std::string_view name);

// One sentence for each TBCCL_ variable in `environment` (as `environ`) that tbccl does not know.
// TBCCL_TESTS_ variables belong to the tests and are left alone.
std::vector<std::string> unknown_variables(const char* const* environment);

}  // namespace tbccl
