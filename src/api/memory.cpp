// Memory that ranks of one host can read directly.
#include "api/handles.h"
#include "base/shared_memory.h"

using namespace tbccl;
using namespace tbccl::api;

extern "C" {

tbcclResult_t tbcclMemAlloc(void** memory, size_t bytes) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    if (memory == nullptr) {
      return report(nullptr, Status(tbcclInvalidArgument, "tbcclMemAlloc: memory is NULL"));
    }
    return report(nullptr, allocate_shared(bytes, memory));
  });
}

tbcclResult_t tbcclMemFree(void* memory) {
  return guarded(nullptr, [&]() -> tbcclResult_t {
    return memory == nullptr ? tbcclSuccess : report(nullptr, free_shared(memory));
  });
}

}  // extern "C"
