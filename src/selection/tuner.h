// Asking the user's tuner (tbcclTuner_t).
#pragma once

#include "base/status.h"
#include "schedule/basis.h"

namespace tbccl::selection {

// Asks for every operation and size class, and puts what is answered before the preferences that
// the basis has. InvalidArgument: an answer that is no candidate.
Status ask_tuner(tbcclTuner_t tuner, void* context, schedule::Basis* basis);

}  // namespace tbccl::selection
