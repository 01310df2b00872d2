// Slurm's compressed lists of hosts: "node[01-04,7],other", "rack[1-2]n[1-8]".
#pragma once

#include <string>
#include <string_view>

namespace tbccl::bootstrap {

// The first host of the list; false if the list is not one. The whole list is checked.
bool first_host(std::string_view list, std::string* host);

}  // namespace tbccl::bootstrap
