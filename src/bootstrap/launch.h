// What a launcher's environment says: which rank this is, of how many, and where they meet. Pure
// but for the two that carry an id between processes (post.h, pmi.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/control.h"
#include "bootstrap/post.h"

namespace tbccl::bootstrap {

// The value of a variable, NULL if it is not set: getenv, or a test's table.
using Lookup = std::function<const char*(const char*)>;

struct Launch {
  std::string launcher;  // for the log
  int rank = 0, size = 1;
  MeetingPoint where;
  // One host: the id goes from rank 0 to the others through a file of this name ("" if not).
  std::string post;
  bool pmi = false;            // the id goes through the key-value space of PMI-1
  bool derived = false;        // the port follows from the launcher's variables
  std::unique_ptr<Post> held;  // rank 0's file; the ranks have met before it may go
};

// Who started this process, and what that says. TBCCL_RANK and TBCCL_SIZE come first, then what
// TBCCL_LAUNCHER names, then the innermost launcher seen. InvalidArgument names a variable whose
// value is wrong or missing. Nothing set: a group of one. TBCCL_RENDEZVOUS, if set, is where they
// meet whoever started them.
Status read_launch(const Lookup& lookup, const Settings& settings, Launch* launch);
// Makes the meeting point ready: carries the id from rank 0 to the others where there is no
// address. Blocks until the connect time-out at most.
Status prepare_launch(const Lookup& lookup, const Settings& settings, Launch* launch);
// Why the ranks did not meet, with what to do where nobody has chosen the port.
Status explain_meeting(const Launch& launch, const Status& status);

// ---- for the readers, one a file ----

Status read_torchrun(const Lookup& lookup, const Settings& settings, Launch* launch);
Status read_openmpi(const Lookup& lookup, const Settings& settings, Launch* launch);
Status read_mpich(const Lookup& lookup, const Settings& settings, Launch* launch);
Status read_slurm(const Lookup& lookup, const Settings& settings, Launch* launch);
Status read_mlx(const Lookup& lookup, const Settings& settings, Launch* launch);

// A whole number in [smallest, largest], or InvalidArgument with variable and value.
Status read_number(const Lookup& lookup, const char* name, int smallest, int largest, int* value);
Status read_rank_and_size(const Lookup& lookup, const char* rank, const char* size, Launch* launch);
bool is_set(const Lookup& lookup, const char* name);  // set and not empty
// Where they meet: `host` with a port that follows from `key`: inside TBCCL_PORT_RANGE, or
// 20000-32767, which no system gives to outgoing connections; never `taken`, the launcher's own.
Status derived_address(const std::string& host, const std::string& key, uint16_t taken,
                       const Settings& settings, Launch* launch);

}  // namespace tbccl::bootstrap
