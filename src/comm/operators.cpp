#include "comm/operators.h"

#include <cstring>

#include "base/formatted.h"

namespace tbccl::comm {

Status Operators::add(const reduce::Reduction& reduction, tbcclRedOp_t* op) {
  std::lock_guard<std::mutex> hold(lock_);
  if (next_ == tbcclRedOpMax) {
    return {tbcclInvalidUsage, "this communicator has made 2^31 operators; make a new one"};
  }
  made_.emplace(next_, reduction);
  *op = static_cast<tbcclRedOp_t>(next_++);
  return {};
}

Status Operators::add_scaled(tbcclDataType_t type, const void* scalar, tbcclRedOp_t* op) {
  if (reduce::size_of(type) == 0 || type == tbcclBool) {
    return {tbcclInvalidArgument,
            formatted("a pre-multiplied sum needs a numeric type, not type {}",
                      static_cast<int>(type))};
  }
  reduce::Reduction reduction;
  reduction.type = type;
  reduction.op = tbcclSum;
  reduction.scaled = true;
  std::memcpy(reduction.scalar, scalar, reduce::size_of(type));
  return add(reduction, op);
}

Status Operators::add_function(tbcclReduceFn function, void* context, bool commutative,
                               tbcclRedOp_t* op) {
  reduce::Reduction reduction;
  reduction.user = function;
  reduction.context = context;
  reduction.commutative = commutative;
  return add(reduction, op);
}

Status Operators::remove(tbcclRedOp_t op) {
  std::lock_guard<std::mutex> hold(lock_);
  if (made_.erase(op) == 0) {
    return {tbcclInvalidArgument,
            formatted("operator {} was not made on this communicator, or was destroyed already",
                      static_cast<int>(op))};
  }
  return {};
}

Status Operators::find(tbcclDataType_t type, tbcclRedOp_t op, int ranks,
                       reduce::Reduction* reduction) {
  if (reduce::size_of(type) == 0) {
    return {tbcclInvalidArgument, formatted("{} is not a data type", static_cast<int>(type))};
  }
  if (op < tbcclRedOpDynamic) {
    if (!reduce::legal(type, op)) {
      return {tbcclInvalidArgument,
              formatted("operator {} ({}) is not defined on {}; see the list of legal pairs in "
                        "tbccl.h",
                        reduce::name_of(op), static_cast<int>(op), reduce::name_of(type))};
    }
    reduction->type = type;
    reduction->op = op;
    reduction->ranks = ranks;
    return {};
  }
  std::lock_guard<std::mutex> hold(lock_);
  const auto found = made_.find(op);
  if (found == made_.end()) {
    return {tbcclInvalidArgument,
            formatted("operator {} was not made on this communicator, or was destroyed already",
                      static_cast<int>(op))};
  }
  if (found->second.scaled && found->second.type != type) {
    return {tbcclInvalidArgument,
            formatted("this pre-multiplied sum was made for {}, the call is on {}",
                      reduce::name_of(found->second.type), reduce::name_of(type))};
  }
  *reduction = found->second;
  reduction->type = type;
  reduction->ranks = ranks;
  return {};
}

}  // namespace tbccl::comm
