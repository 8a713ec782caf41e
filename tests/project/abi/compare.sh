#!/usr/bin/env bash
# Prints the ABI changes of the shared libraries between two installed prefixes: abidiff of each library, over the types of
# the public headers.    compare.sh OLD_PREFIX NEW_PREFIX
#   Build both with -g (CMAKE_BUILD_TYPE=RelWithDebInfo) for better results. Exit status 0: no change, or only additions.
#   Not part of ctest: before 1.0 a minor version may change anything, so a maintainer runs this before a release.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
command -v abidiff >/dev/null || { echo "compare.sh: needs abidiff (Debian: abigail-tools)" >&2; exit 2; }
failures=0 compared=0
while read -r old; do
    name=${old##*/}
    new=$(find "$2" -name "$name" | head -n 1)
    [ -n "$new" ] || { echo "$name is gone"; failures=$((failures + 1)); continue; }
    status=0
    abidiff --headers-dir1 "$1/include/weir" --headers-dir2 "$2/include/weir" --drop-private-types "$old" "$new" || status=$?
    # Bits of abidiff's status: 1 and 2 errors, 4 a change, 8 an incompatible change.
    [ $((status & 11)) = 0 ] || failures=$((failures + 1))
    compared=$((compared + 1))
done < <(find "$1" -name 'libweir*.so' -not -path '*/lib/weir/*')
[ $compared -gt 0 ] || { echo "compare.sh: no libweir*.so under $1" >&2; exit 2; }
echo "$compared libraries compared, $failures with changes that break programs"
[ $failures = 0 ]
