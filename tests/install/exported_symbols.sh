# sh exported_symbols.sh NM LIBRARY HEADER
#
# The shared library exports names that begin with tbccl, nothing else, and every function that
# the header declares.
set -eu
nm=$1 library=$2 header=$3

case $nm in
  *NOTFOUND) echo "SKIPPED: nm is not installed"; exit 77 ;;
esac

if [ "$(uname -s)" = Darwin ]; then
  exported=$("$nm" -gU "$library" | awk '{ sub(/^_/, "", $NF); print $NF }' | sort -u)
else
  exported=$("$nm" -D --defined-only "$library" | awk '{ print $NF }' | sort -u)
fi
declared=$(tr '\n' ' ' < "$header" | grep -oE 'TBCCL_API [a-zA-Z_ *]*tbccl[A-Za-z]+ ?\(' |
  sed 's/ *($//; s/.*[ *]//' | sort -u)

failed=0
strangers=$(echo "$exported" | grep -v '^tbccl' || true)
if [ -n "$strangers" ]; then
  echo "exported, but not the library's to export:"
  echo "$strangers"
  failed=1
fi
count=0
for name in $declared; do
  count=$((count + 1))
  if ! echo "$exported" | grep -qx "$name"; then
    echo "declared in the header, but not exported: $name"
    failed=1
  fi
done
if [ "$count" -lt 30 ]; then
  echo "only $count declarations were found in $header: the pattern of this test no longer fits it"
  failed=1
fi
[ $failed = 0 ] && echo "$count functions, all exported; nothing else is"
exit $failed
