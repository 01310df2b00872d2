// Which blocks of the vector the buffers of each rank hold (see schedule.h).
#include "schedule/schedule.h"

namespace tbccl::schedule {

bool reduces(tbcclOperation_t operation) {
  switch (operation) {
    case tbcclOpAllReduce:
    case tbcclOpBarrier:
    case tbcclOpReduce:
    case tbcclOpReduceScatter:
    case tbcclOpReduceScatterV:
    case tbcclOpScan:
    case tbcclOpExScan:
      return true;
    default:
      return false;
  }
}

tbcclOperation_t uniform(tbcclOperation_t form) {
  switch (form) {
    case tbcclOpAllGatherV:
      return tbcclOpAllGather;
    case tbcclOpReduceScatterV:
      return tbcclOpReduceScatter;
    case tbcclOpAllToAllV:
      return tbcclOpAllToAll;
    case tbcclOpGatherV:
      return tbcclOpGather;
    case tbcclOpScatterV:
      return tbcclOpScatter;
    default:
      return form;
  }
}

bool varies(tbcclOperation_t operation) { return uniform(operation) != operation; }

int32_t vector_blocks(tbcclOperation_t operation, int32_t size) {
  switch (uniform(operation)) {
    case tbcclOpAllGather:
    case tbcclOpReduceScatter:
    case tbcclOpAllToAll:
    case tbcclOpGather:
    case tbcclOpScatter:
      return size;
    default:
      return 1;
  }
}

Shape shape_of(const Collective& c, int32_t rank, int32_t size) {
  const Window one{0, 1}, mine{rank, 1}, all{0, size}, none{0, 0};
  const bool root = rank == c.root;
  switch (uniform(c.operation)) {
    case tbcclOpBroadcast:
      return {1, root ? one : none, one, 0};
    case tbcclOpReduce:
      return {1, one, root ? one : none, 0};
    case tbcclOpExScan:
      return {1, one, rank == 0 ? none : one, 0};
    case tbcclOpAllGather:
      return {size, mine, all, 0};
    case tbcclOpReduceScatter:
      return {size, all, mine, 0};
    case tbcclOpGather:
      return {size, mine, root ? all : none, 0};
    case tbcclOpScatter:
      return {size, root ? all : none, mine, 0};
    case tbcclOpAllToAll:
      return {2 * size, all, {size, size}, size};
    default:
      return {1, one, one, 0};
  }
}

}  // namespace tbccl::schedule
