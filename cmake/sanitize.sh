# sh cmake/sanitize.sh asan|tsan
#
# Builds a subset of the unit tests, the C example and the soak with a sanitizer (the presets asan and
# tsan) and runs them: the rooms that own memory, and those that threads meet in; the soak for a
# minute. Everything else can be had by the presets themselves.
set -eu
cd "$(dirname "$0")/.."

case ${1-} in
  asan) rooms='base|link|tcp|shm|engine|api' ;;
  tsan) rooms='bootstrap|shm|engine|api' ;;
  *) echo "usage: sh cmake/sanitize.sh asan|tsan" >&2; exit 2 ;;
esac
preset=$1
tests="^(unit-($rooms)|example-allreduce)\$"

if command -v ninja > /dev/null; then
  export CMAKE_GENERATOR=Ninja
fi
cmake --preset "$preset"
# shellcheck disable=SC2046 # names are words
cmake --build "build/$preset" --parallel "$(getconf _NPROCESSORS_ONLN)" --target allreduce soak \
  $(ctest --test-dir "build/$preset" -N -R "$tests" | sed -nE 's/^ *Test +#[0-9]+: (unit-[a-z]+)$/\1/p')

export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
fixed_addresses=
if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2> /dev/null; then
  # Some kernels spread mappings further than this sanitizer's shadow memory reaches.
  fixed_addresses="setarch $(uname -m) -R"
fi
$fixed_addresses ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  --parallel "$(getconf _NPROCESSORS_ONLN)" -R "$tests"
exec $fixed_addresses "build/$preset/bin/soak" --seconds 60
