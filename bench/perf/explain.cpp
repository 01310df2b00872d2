#include "explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "collective.h"
#include "job_basis.h"
#include "selection/selection.h"
#include "sweep.h"

namespace tbccl::perf {

int explain(const Options& options) {
  if (options.collective == kSendRecv.name) {
    fmt::print("sendrecv has no algorithms: a message goes over the link between its two ranks\n");
    return 0;
  }
  schedule::Basis basis;
  if (Status status = describe_job(options, &basis); !status.ok()) {
    fmt::print(stderr, "tbccl-perf: {}\n", status.text());
    return kExitError;
  }
  selection::Question question;
  const CollectiveTest& collective = find_collective(options.collective);
  question.collective.operation = collective.operation;
  question.collective.root = std::max(options.root, 0);
  question.element = static_cast<uint32_t>(options.types.front().bytes);
  question.collective.scale = collective.reduces && options.operators.front().op == Op::kMulSum;
  for (uint64_t bytes : options.sizes()) {
    // Variable counts: of the average block.
    const uint64_t size = collective.counts(bytes, question.element, basis.size).bytes;
    question.count =
        size / question.element /
        static_cast<uint64_t>(schedule::vector_blocks(collective.operation, basis.size));
    fmt::print("{}\n", selection::explain(question, basis));
  }
  return 0;
}

}  // namespace tbccl::perf
