// tbccl-perf: see README.md of this folder, and tbccl-perf --help.
#include "explain.h"
#include "local_ranks.h"
#include "options.h"
#include "predict.h"
#include "sweep.h"
#include "tune.h"

int main(int argc, char** argv) {
  using namespace tbccl::perf;
  Options options;
  switch (parse_options(argc, argv, &options)) {
    case Parsed::kExitOk:
      return 0;
    case Parsed::kExitError:
      return kExitError;
    case Parsed::kRun:
      break;
  }
  if (options.explain) return explain(options);
  if (!options.simulate.empty()) return simulate(options);
  if (options.matrix) return print_matrix(options);
  if (options.parent != 0) {
    follow_parent(options.parent);
  } else if (options.local_ranks > 0) {
    return run_local_ranks(options.local_ranks, argc, argv);
  }
  if (!options.tune.empty()) return tune(options);
  if (options.check_selection) return check_selection(options);
  return run_rank(options, {argv, argv + argc});
}
