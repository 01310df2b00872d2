# sh installed_library.sh CMAKE SOURCES BUILD CC
#
# Installs into a temporary prefix, moves that (an installed tree must not know where it was made),
# and builds and runs programs against it as users do: by CMake and by pkg-config, with the shared
# and with the static library. The CMake consumers are plain C projects.
set -eu
cmake=$1 sources=$2 build=$3 cc=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
unset TBCCL_RANK TBCCL_SIZE TBCCL_RENDEZVOUS TBCCL_CABLING PKG_CONFIG_LIBDIR || true

run() { # run WHAT PROGRAM [VAR=value]: the example, as a group of one rank
  what=$1 program=$2
  shift 2
  printf '%-28s' "$what:"
  env "$@" "$program"
}

"$cmake" --install "$build" --prefix "$work/first" > "$work/install.log" ||
  { cat "$work/install.log"; exit 1; }
mkdir "$work/moved"
mv "$work/first" "$work/moved/here"
prefix=$work/moved/here
pc=$(find "$prefix" -name tbccl.pc)
libdir=$(dirname "$(dirname "$pc")")
[ "$(uname -s)" = Darwin ] && path=DYLD_LIBRARY_PATH || path=LD_LIBRARY_PATH

if grep -rlF -e "$work" -e "$sources" "$libdir/cmake" "$libdir/pkgconfig"; then
  echo "these files name the place where they were made"
  exit 1
fi

"$cmake" -S "$sources/examples/c" -B "$work/shared" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_PREFIX_PATH="$prefix" > "$work/log" 2>&1 && "$cmake" --build "$work/shared" >> "$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
run "CMake, shared" "$work/shared/allreduce"

"$cmake" -S "$sources/tests/install/consumer" -B "$work/static" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_PREFIX_PATH="$prefix" -DPROGRAM="$sources/examples/c/allreduce.c" > "$work/log" 2>&1 &&
  "$cmake" --build "$work/static" >> "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
run "CMake, static" "$work/static/consumer"

if ! command -v pkg-config > /dev/null; then
  echo "SKIPPED: pkg-config is not installed (the CMake half has passed)"
  exit 77
fi
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # the flags are words
"$cc" -std=c99 -Wall -Wextra -Werror "$sources/examples/c/allreduce.c" -o "$work/pc-shared" \
  $(pkg-config --cflags --libs tbccl)
run "pkg-config, shared" "$work/pc-shared" "$path=$libdir"

# shellcheck disable=SC2046
"$cc" -std=c99 "$sources/examples/c/allreduce.c" -o "$work/pc-static" $(pkg-config --cflags tbccl) \
  "$libdir/libtbccl.a" $(pkg-config --static --libs-only-l tbccl | sed 's/-ltbccl\b//')
run "pkg-config, static" "$work/pc-static"
