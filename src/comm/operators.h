// The operators a user made on one communicator: pre-multiplied sums and functions.
#pragma once

#include <map>
#include <mutex>

#include "base/status.h"
#include "reduce/reduce.h"

namespace tbccl::comm {

// Any thread.
class Operators {
 public:
  Status add_scaled(tbcclDataType_t type, const void* scalar, tbcclRedOp_t* op);
  Status add_function(tbcclReduceFn function, void* context, bool commutative, tbcclRedOp_t* op);
  Status remove(tbcclRedOp_t op);

  // What a call with this type and operator reduces with, for a group of `ranks` ranks.
  // InvalidArgument for a pair that is not legal, or an operator that does not exist (any more).
  Status find(tbcclDataType_t type, tbcclRedOp_t op, int ranks, reduce::Reduction* reduction);

 private:
  Status add(const reduce::Reduction& reduction, tbcclRedOp_t* op);

  std::mutex lock_;
  std::map<int, reduce::Reduction> made_;
  int next_ = tbcclRedOpDynamic;
};

}  // namespace tbccl::comm
