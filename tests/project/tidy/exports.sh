#!/usr/bin/env bash
# A library exports exactly the functions that its headers declare WEIR_API. The same for a static library (.a): it has no
# other global function, which could clash with one of a program.
#   exports.sh LIBRARY INCLUDE_DIR... [--and NAME...]
#   NAME: a function that it exports for a library of another project and that no header of weir declares.
set -euo pipefail
library=$1
shift
folders=()
while [ $# -gt 0 ] && [ "$1" != --and ]; do folders+=("$1"); shift; done
[ $# = 0 ] || shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Removes macros and comments, joins lines, and takes the last name before the first parenthesis of each declaration.
find "${folders[@]}" -path '*/weir/*.h' -exec cat {} + |
    grep -v '^#' | tr '\n' ' ' | sed -E 's,/\*([^*]|\*+[^*/])*\*+/, ,g' |
    grep -oE '\bWEIR_API [^;()]*\(' | grep -oE '[a-z_0-9]+ *\($' | tr -d ' (' | cat - <(printf '%s\n' "$@" | sed '/^$/d') | sort -u >"$scratch/declared"
from=-D
[[ $library != *.a ]] || from=-g
nm $from --defined-only "$library" | awk 'NF == 3' | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/exported"

[ -s "$scratch/declared" ] || { echo "no WEIR_API found" >&2; exit 1; }
missing=$(comm -23 "$scratch/declared" "$scratch/exported")
extra=$(comm -13 "$scratch/declared" "$scratch/exported")
[ -z "$missing" ] || printf 'declared but not exported: %s\n' $missing >&2
[ -z "$extra" ] || printf 'exported but not declared: %s\n' $extra >&2
[ -z "$missing$extra" ] && echo "$(wc -l <"$scratch/declared") symbols, declared and exported alike"
