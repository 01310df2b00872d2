#include "base/result.h"

#include <string>

#include "base/status.h"
#include "unit/catch.h"

using namespace tbccl;

TEST_CASE("result codes have names") {
  REQUIRE(std::string(name_of(tbcclSuccess)) == "Success");
  REQUIRE(std::string(name_of(tbcclRemoteError)) == "RemoteError");
  REQUIRE(std::string(name_of(tbcclAborted)) == "Aborted");
  REQUIRE(std::string(name_of(static_cast<tbcclResult_t>(30))) == "unknown result");
}

TEST_CASE("a status is ok until it carries a code") {
  REQUIRE(Status().ok());
  const Status bad(tbcclTimeout, "late");
  REQUIRE_FALSE(bad.ok());
  REQUIRE(bad.code() == tbcclTimeout);
  REQUIRE(bad.text() == "late");
}
