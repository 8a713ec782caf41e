#!/usr/bin/env bash
# The simulated ACL runtime exports what functions.h lists and its own controls, and calls none of it by its public
# name: a definition that another library puts in front sees the user's calls and no others.
#   ascendcl_symbols.sh LIBRARY FUNCTIONS_H
set -euo pipefail
library=$1 functions=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }

grep -oE '\bX\(acl\w+' "$functions" | sed 's/X(//' | sort -u >"$scratch/listed"
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort -u >"$scratch/exported"
grep '^weir_ascendcl_' "$scratch/exported" >"$scratch/controls" || true
[ -s "$scratch/listed" ] || complain "$functions lists no function"

for name in $(comm -23 "$scratch/listed" "$scratch/exported"); do complain "listed but not exported: $name"; done
for name in $(comm -13 "$scratch/listed" "$scratch/exported" | comm -23 - "$scratch/controls"); do
    complain "exported but not listed: $name"
done

# A versioned symbol would bind programs to this library alone.
while read -r name; do complain "has a version: $name"; done < <(grep @ "$scratch/exported" || true)

# An undefined public name is a call to somebody else's runtime; a relocation that names one is a call to our own.
while read -r name; do complain "left undefined: $name"; done < <(nm -D --undefined-only "$library" |
    awk '{ print $NF }' | grep -E '^(acl|mstx)' || true)
while read -r name; do complain "called by its public name: $name"; done < <(readelf -rW "$library" |
    grep -oE '\b(acl|mstx)[A-Za-z0-9]+\b' | sort -u | grep -vE '^acl__' || true)

# Bound at link time, a call to a public name would leave no trace here.
while read -r name; do complain "cannot be replaced: $name"; done < <(readelf --dyn-syms -W "$library" |
    awk '$6 == "PROTECTED" && $7 != "UND" { print $8 }')
! readelf -dW "$library" | grep -q SYMBOLIC || complain "linked with -Bsymbolic"

[ $failures = 0 ] || exit 1
echo "$(wc -l <"$scratch/listed") functions and $(wc -l <"$scratch/controls") controls exported, none called from inside"
