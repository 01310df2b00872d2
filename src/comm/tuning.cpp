// The part of bringing up a communicator in which its basis gets what was measured or asked for.
#include "selection/tuning.h"

#include "comm/bring_up.h"
#include "selection/tuner.h"

namespace tbccl::comm {

// Costs and choices from rank 0's tuning file; what its tuner says, which it can only be asked when
// the rest is known, is sent round as a basis.
Status BringUp::tune() {
  schedule::Basis& basis = c_.basis_;
  basis.index_cables();
  if (!tuning_text_.empty()) {
    Status status = selection::apply_tuning(tuning_text_, "rank 0's tuning file", &basis);
    if (!status.ok()) return status;
  }
  if (!has_tuner_) return {};
  std::string mine;
  if (c_.rank_ == 0) {
    const Settings& settings = c_.settings_;
    Status status = selection::ask_tuner(settings.tuner, settings.tuner_context, &basis);
    if (!status.ok()) return status;
    mine = basis.serialize();
  }
  if (c_.size_ == 1) return {};
  std::vector<std::string> all;
  if (Status status = gather(mine, &all); !status.ok()) return status;
  return schedule::Basis::parse(all[0], &basis);
}

}  // namespace tbccl::comm
