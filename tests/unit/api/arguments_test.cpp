// Bad arguments: a clear answer, no effect, and a communicator that goes on working.
#include <string>

#include "unit/api/job.h"

namespace {

void require_bad(tbcclResult_t result, tbcclComm_t comm, const std::string& part) {
  const std::string text = tbcclGetLastError(comm);
  INFO(text);
  REQUIRE(result == tbcclInvalidArgument);
  REQUIRE(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("every result code has a text") {
  for (int code : {0, 2, 3, 4, 5, 6, 7, 8, 16}) {
    REQUIRE(std::string(tbcclGetErrorString(static_cast<tbcclResult_t>(code))) !=
            "unknown result code");
  }
  REQUIRE(std::string(tbcclGetErrorString(static_cast<tbcclResult_t>(99))) ==
          "unknown result code");
  int version = 0;
  REQUIRE(tbcclGetVersion(&version) == tbcclSuccess);
  REQUIRE(version == TBCCL_VERSION_CODE);
  REQUIRE(tbcclGetVersion(nullptr) == tbcclInvalidArgument);
}

TEST_CASE("calls without a communicator say so") {
  int x = 0;
  REQUIRE(tbcclCommCount(nullptr, &x) == tbcclInvalidArgument);
  REQUIRE(std::string(tbcclGetLastError(nullptr)).find("NULL") != std::string::npos);
  REQUIRE(tbcclAllReduce(&x, &x, 1, tbcclInt32, tbcclSum, nullptr, nullptr) ==
          tbcclInvalidArgument);
  REQUIRE(tbcclCommDestroy(nullptr) == tbcclInvalidArgument);
  REQUIRE(tbcclCommInitAll(nullptr, 2) == tbcclInvalidArgument);
  tbcclComm_t comm = nullptr;
  REQUIRE(tbcclCommInitAll(&comm, 0) == tbcclInvalidArgument);
  REQUIRE(tbcclCommInitExchange(&comm, 1, 0, nullptr, nullptr, nullptr) == tbcclInvalidArgument);
  REQUIRE(tbcclWait(nullptr, 0) == tbcclInvalidArgument);
  REQUIRE(tbcclGroupEnd() == tbcclInvalidUsage);
}

TEST_CASE("ranks and sizes are checked before anything is opened") {
  tbcclUniqueId id;
  REQUIRE(tbcclGetUniqueId(&id) == tbcclSuccess);
  tbcclComm_t comm = nullptr;
  REQUIRE(tbcclCommInitRank(&comm, 2, id, 2) == tbcclInvalidArgument);
  REQUIRE(tbcclCommInitRank(&comm, 0, id, 0) == tbcclInvalidArgument);
  REQUIRE(tbcclCommInitRank(&comm, 2, id, -1) == tbcclInvalidArgument);
  REQUIRE(comm == nullptr);
  tbcclConfig_t config = TBCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  REQUIRE(tbcclCommInitRankConfig(&comm, 1, id, 0, &config) == tbcclInvalidArgument);
  config = TBCCL_CONFIG_INITIALIZER;
  config.algorithms = "allreduce:nonsense";
  REQUIRE(tbcclCommInitRankConfig(&comm, 1, id, 0, &config) == tbcclInvalidArgument);
  config = TBCCL_CONFIG_INITIALIZER;
  config.transports = "carrier-pigeon";
  REQUIRE(tbcclCommInitRankConfig(&comm, 1, id, 0, &config) == tbcclInvalidArgument);
  config = TBCCL_CONFIG_INITIALIZER;
  config.cabling = "/nonexistent/cabling.json";
  REQUIRE(tbcclCommInitRankConfig(&comm, 1, id, 0, &config) == tbcclInvalidArgument);
  REQUIRE(comm == nullptr);
}

TEST_CASE("bad arguments of operations have no effect") {
  Job job(2);
  tbcclComm_t comm = job[0];
  float a[16] = {}, b[16] = {};
  const auto all_reduce = [&](const void* in, void* out, size_t count, int type, int op) {
    return tbcclAllReduce(in, out, count, static_cast<tbcclDataType_t>(type),
                          static_cast<tbcclRedOp_t>(op), comm, nullptr);
  };
  require_bad(all_reduce(nullptr, b, 8, tbcclFloat32, tbcclSum), comm, "sendbuff");
  require_bad(all_reduce(a, nullptr, 8, tbcclFloat32, tbcclSum), comm, "recvbuff");
  require_bad(all_reduce(a, b, 8, 77, tbcclSum), comm, "data type");
  require_bad(all_reduce(a, b, 8, tbcclFloat32, tbcclBitAnd), comm, "not defined");
  require_bad(all_reduce(a, b, 8, tbcclComplex64, tbcclMin), comm, "not defined");
  require_bad(all_reduce(a, b, 8, tbcclFloat32, 7), comm, "not defined");
  require_bad(all_reduce(a, b, 8, tbcclFloat32, 0x1000), comm, "was not made");
  require_bad(all_reduce(a, a + 1, 4, tbcclFloat32, tbcclSum), comm, "overlap");
  require_bad(all_reduce(a, b, SIZE_MAX / 2, tbcclFloat32, tbcclSum), comm, "memory");
  require_bad(tbcclBroadcast(a, b, 8, tbcclFloat32, 2, comm, nullptr), comm, "root 2");
  require_bad(tbcclBroadcast(a, b, 8, tbcclFloat32, -1, comm, nullptr), comm, "root -1");
  require_bad(tbcclSend(a, 8, tbcclFloat32, 5, 0, comm, nullptr), comm, "peer 5");
  require_bad(tbcclSend(a, 8, tbcclFloat32, TBCCL_ANY_SOURCE, 0, comm, nullptr), comm, "peer -1");
  require_bad(tbcclSend(a, 8, tbcclFloat32, 1, -3, comm, nullptr), comm, "tag");
  require_bad(tbcclRecv(nullptr, 8, tbcclFloat32, 1, 0, comm, nullptr), comm, "NULL");
  tbcclCall_t call = TBCCL_CALL_INITIALIZER;
  call.comm = comm;
  call.startWhen = tbcclStartWhenFlag;
  require_bad(tbcclSubmit(&call, nullptr), comm, "flag");
  call.startWhen = tbcclStartWhenDescriptor;
  require_bad(tbcclSubmit(&call, nullptr), comm, "descriptor");
  call = TBCCL_CALL_INITIALIZER;
  call.magic = 0;
  REQUIRE(tbcclSubmit(&call, nullptr) == tbcclInvalidArgument);
  tbcclRedOp_t op;
  float scalar = 2;
  require_bad(tbcclRedOpCreatePreMulSum(&op, nullptr, tbcclFloat32, tbcclScalarHostImmediate, comm),
              comm, "NULL");
  require_bad(tbcclRedOpCreatePreMulSum(&op, &scalar, tbcclBool, tbcclScalarHostImmediate, comm),
              comm, "numeric");
  require_bad(tbcclRedOpDestroy(static_cast<tbcclRedOp_t>(0x1000), comm), comm, "was not made");

  // And it still works.
  job.each([&](int rank, tbcclComm_t c, Findings& found) {
    const float mine = static_cast<float>(rank + 1);
    float sum = 0;
    found.expect(tbcclAllReduce(&mine, &sum, 1, tbcclFloat32, tbcclSum, c, nullptr) == tbcclSuccess,
                 tbcclGetLastError(c));
    found.expect(sum == 3.0f, "the sum is wrong");
  });
}
