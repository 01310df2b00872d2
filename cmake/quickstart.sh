# sh cmake/quickstart.sh
#
# From a fresh machine to a verified all-reduce: installs what is missing, builds the library and
# its tools in build/release, and runs a sweep on four ranks of this machine.
set -eu
cd "$(dirname "$0")/.."
. cmake/setup.sh

install_dependencies
build release tbccl tbccl_static tbccl-perf allreduce
exec build/release/bin/tbccl-perf all_reduce -g 4 -b 8 -e 64M -f 4
