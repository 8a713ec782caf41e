#!/usr/bin/env bash
# The simulated ACL runtime exports the functions of functions.h and its own controls, and calls none of them by its public
# name. So if another library interposes a function, its definition gets only the user's calls.
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

# An undefined public name is a call to another runtime; a relocation that names one is a call to this runtime itself.
while read -r name; do complain "left undefined: $name"; done < <(nm -D --undefined-only "$library" |
    awk '{ print $NF }' | grep -E '^(acl|mstx)' || true)
while read -r name; do complain "called by its public name: $name"; done < <(readelf -rW "$library" |
    grep -oE '\b(acl|mstx)[A-Za-z0-9]+\b' | sort -u | grep -vE '^acl__' || true)

# A call that is bound at link time has no relocation, so the check above would not find it. PROTECTED symbols and -Bsymbolic
# cause such calls.
while read -r name; do complain "cannot be replaced: $name"; done < <(readelf --dyn-syms -W "$library" |
    awk '$6 == "PROTECTED" && $7 != "UND" { print $8 }')
! readelf -dW "$library" | grep -q SYMBOLIC || complain "linked with -Bsymbolic"

[ $failures = 0 ] || exit 1
echo "$(wc -l <"$scratch/listed") functions and $(wc -l <"$scratch/controls") controls exported, none called from inside"
