// The id through the key-value space of PMI-1, on the descriptor that Hydra gives as PMI_FD.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "bootstrap/launch.h"

namespace tbccl::bootstrap {

// "cmd=maxes kvsname_max=256 keylen_max=64": words of key=value, without the newline; false for
// anything else. A value ends at a blank; `msg` may hold blanks, up to the next key=.
using PmiWords = std::map<std::string, std::string>;
bool parse_pmi(std::string_view line, PmiWords* words);

// Collective over the launch: rank 0 makes the id and puts it, all pass a barrier, the others get
// it. InvalidUsage once MPI_Init has the descriptor.
Status carry_by_pmi(const Lookup& lookup, const Settings& settings, unsigned number,
                    Launch* launch);

}  // namespace tbccl::bootstrap
