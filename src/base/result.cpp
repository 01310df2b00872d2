#include "base/result.h"

namespace tbccl {

const char* name_of(tbcclResult_t result) {
  switch (result) {
    case tbcclSuccess:
      return "Success";
    case tbcclSystemError:
      return "SystemError";
    case tbcclInternalError:
      return "InternalError";
    case tbcclInvalidArgument:
      return "InvalidArgument";
    case tbcclInvalidUsage:
      return "InvalidUsage";
    case tbcclRemoteError:
      return "RemoteError";
    case tbcclInProgress:
      return "InProgress";
    case tbcclTimeout:
      return "Timeout";
    case tbcclAborted:
      return "Aborted";
  }
  return "unknown result";
}

}  // namespace tbccl
