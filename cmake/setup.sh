# Sourced by quickstart.sh and check.sh: brings what a build needs onto this machine, and builds.
# POSIX sh. The caller has set -eu and stands in the root of the sources.

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# quietly WHAT COMMAND...: its output goes to a file, and is shown only when it fails.
quietly() {
  quietly_what=$1
  shift
  mkdir -p build
  if ! "$@" > build/setup.log 2>&1 < /dev/null; then
    tail -n 30 build/setup.log >&2
    die "$quietly_what failed (the whole output is in build/setup.log)"
  fi
}

# --- Debian, Ubuntu and their kin ---

# What this package brings, where a program of another origin does as well.
apt_program() {
  case $1 in
    cmake) echo cmake ;;
    ninja-build) echo ninja ;;
    g++) echo g++ ;;
    make) echo make ;;
    python3) echo python3 ;;
    iproute2) echo ip ;;
    npm) echo npm ;;
  esac
}

apt_has() {
  apt_command=$(apt_program "$1")
  if [ -n "$apt_command" ] && command -v "$apt_command" > /dev/null; then
    return 0
  fi
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]
}

apt_install() { # apt_install PACKAGE...: those that are missing
  missing=
  for package in "$@"; do
    apt_has "$package" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  sudo=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null ||
      die "these packages are missing, and installing them needs root: apt-get install$missing"
    sudo=sudo
  fi
  echo "installing:$missing"
  quietly "apt-get update" $sudo apt-get update -q
  # shellcheck disable=SC2086 # words
  quietly "installing$missing" $sudo env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends $missing
}

# --- Homebrew ---

brew_install() { # brew_install FORMULA...: those that are missing
  command -v brew > /dev/null ||
    die "Homebrew is needed to install: $* (see https://brew.sh), or install these another way and add their prefix to CMAKE_PREFIX_PATH"
  xcode-select -p > /dev/null 2>&1 || die "the compiler is missing: run xcode-select --install, then this again"
  have=" $(brew list --formula -1 | tr '\n' ' ') "
  missing=
  for formula in "$@"; do
    case $have in
      *" $formula "*) ;;
      *) missing="$missing $formula" ;;
    esac
  done
  [ -n "$missing" ] || return 0
  echo "installing:$missing"
  # shellcheck disable=SC2086
  quietly "installing$missing" env HOMEBREW_NO_AUTO_UPDATE=1 brew install $missing
}

# --- everywhere ---

# install_dependencies [ci]: what the library, its tools and its tests are built with; for "ci" also
# the means of the tests that are skipped without them.
install_dependencies() {
  if [ "$(uname -s)" = Darwin ]; then
    brew_install cmake ninja pkgconf asio fmt highway hwloc libsodium nlohmann-json cli11 catch2 google-benchmark
    [ "${1-}" != ci ] || brew_install open-mpi
  elif command -v apt-get > /dev/null; then
    apt_install cmake ninja-build make g++ pkg-config libasio-dev libfmt-dev libhwy-dev libhwloc-dev \
      libsodium-dev nlohmann-json3-dev libcli11-dev catch2 libbenchmark-dev python3 iproute2
    [ "${1-}" != ci ] || apt_install libopenmpi-dev openmpi-bin mpich npm \
      munge slurm-client slurmctld slurmd
  else
    for program in cmake c++ pkg-config; do
      command -v $program > /dev/null ||
        die "$program is missing, and this script knows only apt and Homebrew: install CMake, a C++20 compiler, pkg-config, standalone Asio, fmt, Highway, hwloc, libsodium, nlohmann/json, CLI11, Catch2 and Google Benchmark"
    done
  fi
  cmake --help > /dev/null 2>&1 || die "cmake does not run"
  version=$(cmake --version | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  major=${version% *} minor=${version#* }
  if [ "$major" -lt 3 ] || { [ "$major" = 3 ] && [ "$minor" -lt 25 ]; }; then
    die "CMake $major.$minor is too old: 3.25 or newer is needed ($(command -v cmake))"
  fi
}

processors() {
  getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2
}

# build PRESET [TARGET...]: configures and builds in build/PRESET; all targets when none is named.
build() {
  preset=$1
  shift
  # Only a default: a build directory keeps the generator that it was made with.
  if command -v ninja > /dev/null; then
    export CMAKE_GENERATOR=Ninja
  fi
  quietly "configuring build/$preset" cmake --preset "$preset"
  grep '^-- .* was not found' build/setup.log || true
  quietly_targets=
  [ $# = 0 ] || quietly_targets=--target
  echo "building build/$preset"
  # shellcheck disable=SC2086
  quietly "building build/$preset" cmake --build "build/$preset" --parallel "$(processors)" $quietly_targets "$@"
}
