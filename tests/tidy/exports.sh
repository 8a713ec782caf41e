#!/usr/bin/env bash
# What the headers declare WEIR_API is what the shared library exports (weir::jemalloc is another).    exports.sh SOURCE_DIR LIBRARY
set -euo pipefail
source_dir=$1 library=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Macros and comments out, lines joined, then the last name before the first parenthesis of each declaration.
find "$source_dir"/{core,allocators,bindings}/ -path '*/include/weir/*.h' ! -path '*/jemalloc/*' -exec cat {} + |
    grep -v '^#' | tr '\n' ' ' | sed -E 's,/\*([^*]|\*+[^*/])*\*+/, ,g' |
    grep -oE '\bWEIR_API [^;()]*\(' | grep -oE '[a-z_0-9]+ *\($' | tr -d ' (' | sort -u >"$scratch/declared"
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/exported"

[ -s "$scratch/declared" ] || { echo "no WEIR_API found" >&2; exit 1; }
missing=$(comm -23 "$scratch/declared" "$scratch/exported")
extra=$(comm -13 "$scratch/declared" "$scratch/exported")
[ -z "$missing" ] || printf 'declared but not exported: %s\n' $missing >&2
[ -z "$extra" ] || printf 'exported but not declared: %s\n' $extra >&2
[ -z "$missing$extra" ] && echo "$(wc -l <"$scratch/declared") symbols, declared and exported alike"
