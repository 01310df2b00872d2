# sh cmake/check.sh [--ci]
#
# Installs what is missing, builds everything in build/release and runs the tests. With --ci also
# the builds with sanitizers and for macOS, and no test may be skipped for want of means that this
# machine has. Tests with the labels vm, torch and long have to be asked for: tests/README.md.
set -eu
cd "$(dirname "$0")/.."
. cmake/setup.sh

mode=${1-}
case $mode in
  '') left_out='^(vm|cross|torch|sanitizer|long)$' ;;
  --ci) left_out='^(vm|torch|long)$' ;;
  *) die "unknown option $mode; usage: sh cmake/check.sh [--ci]" ;;
esac

# The reasons of skipped tests, as "name: reason", from the log of the last run.
skipped_tests() {
  awk '/^[0-9]+\/[0-9]+ Testing: / { name = $3 }
       /^SKIPPED: / { if (name != "") print name ": " substr($0, 10); name = "" }' \
    build/release/Testing/Temporary/LastTest.log
}

has_label() { # has_label TEST LABEL
  ctest --test-dir build/release -N -L "^$2\$" -R "^$1\$" 2> /dev/null | grep -q " $1\$"
}

namespaces_work() {
  [ "$(id -u)" = 0 ] && ip netns add "tbccl-check-$$" 2> /dev/null && ip netns del "tbccl-check-$$"
}

npm_works() {
  command -v npm > /dev/null && npm ping > /dev/null 2>&1
}

# Whether a test that was skipped could have run here.
means_exist() {
  if has_label "$1" net; then
    namespaces_work
  elif has_label "$1" cross; then
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] && npm_works
  elif has_label "$1" mpi; then
    command -v mpirun > /dev/null
  elif has_label "$1" mpich; then
    command -v mpiexec.hydra > /dev/null
  elif has_label "$1" slurm; then
    [ "$(id -u)" = 0 ] && [ -x /usr/sbin/slurmctld ] && unshare --pid --fork --mount-proc true
  else
    true
  fi
}

install_dependencies "${mode#--}"
build release

status=0
ctest --test-dir build/release --output-on-failure --parallel 2 -LE "$left_out" < /dev/null || status=$?

skipped_tests > build/skipped.txt
while IFS= read -r line; do
  echo "skipped: $line"
  if [ "$mode" = --ci ] && means_exist "${line%%:*}"; then
    echo "check.sh: ${line%%:*} was skipped, although this machine has what it needs" >&2
    status=1
  fi
done < build/skipped.txt
exit $status
