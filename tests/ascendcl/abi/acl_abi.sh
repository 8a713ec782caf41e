#!/usr/bin/env bash
# The ABI of some ACL headers is acl_abi.txt, line for line.    acl_abi.sh SOURCE_DIR cxx=CXX INCLUDE_DIR...
#   Several folders are laid over each other, a later one on top: in the vendor's repositories the runtime holds empty
#   stand-ins of headers that the graph engine has. Without a compiler or a folder it skips.
set -euo pipefail
source_dir=$1 cxx=${2#cxx=}
shift 2
[ -n "$cxx" ] || { echo "skipped: no C++ compiler"; exit 77; }
[ $# -gt 0 ] || { echo "skipped: WEIR_CANN_INCLUDE names no folder with the vendor's acl/acl.h"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/include"
for dir in "$@"; do
    [ -d "$dir/acl" ] || { echo "$dir has no folder acl" >&2; exit 1; }
    cp -r "$dir/acl" "$scratch/include/"
done

# The vendor's headers may cause warnings.
"$cxx" -std=c++17 -Wall -Wextra -Werror -isystem "$scratch/include" -I"$source_dir/bindings/ascendcl/src" \
    "$source_dir/tests/ascendcl/abi/acl_abi.cc" -o "$scratch/acl_abi"
"$scratch/acl_abi" >"$scratch/acl_abi.txt"
diff -u --label expected --label "as compiled from $*" "$source_dir/tests/ascendcl/abi/acl_abi.txt" "$scratch/acl_abi.txt"
echo "$(wc -l <"$scratch/acl_abi.txt") lines, all as in acl_abi.txt"
