#!/usr/bin/env bash
# The ACL headers, functions.h and the output of the ABI proof have the same function names. Each function is called by a
# program of tests/ascendcl/programs.
#   ascendcl_lists.sh SOURCE_DIR
set -euo pipefail
cd "$1"
headers=$(find bindings/ascendcl/include/acl -name '*.h')
functions=bindings/ascendcl/src/base/functions.h
abi=tests/ascendcl/abi/acl_abi.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# compare SUBJECT: checks that the lines of $scratch/here and $scratch/there are the same.
compare() {
    local name
    sort -o "$scratch/here" "$scratch/here"
    sort -o "$scratch/there" "$scratch/there"
    [ -s "$scratch/here" ] || { echo "no $1 found" >&2; failures=1; }
    [ -z "$(uniq -d "$scratch/there")" ] || { echo "$1: twice: $(uniq -d "$scratch/there")" >&2; failures=1; }
    for name in $(comm -23 "$scratch/here" "$scratch/there"); do echo "$1: only declared: $name" >&2; failures=1; done
    for name in $(comm -13 "$scratch/here" "$scratch/there"); do echo "$1: not declared: $name" >&2; failures=1; done
    counted+="${counted:+, }$(wc -l <"$scratch/here") $1"
}
counted=

# The headers on one line each, without comments, directives, texts of deprecation and the members of unions inside structs.
for header in $headers; do
    sed -E 's/ACL_DEPRECATED_MESSAGE\($/&\\/' "$header" | grep -vE '^#' | tr '\n' ' ' |
        sed -E 's,/\*([^*]|\*+[^*/])*\*+/, ,g; s/ACL_DEPRECATED_MESSAGE\([\\ ]*"[^"]*"\)//g; s/  +/ /g; s/([^f]) union \{[^}]*\} (\w+);/\1 void \2;/g'
    echo
done >"$scratch/plain"

grep -oE 'ACL_FUNC_VISIBILITY [^;()]*\(' "$scratch/plain" | grep -oE '\w+\($' | tr -d '(' >"$scratch/here"
grep -oE '\bX\(acl\w+' "$functions" | sed 's/X(//' >"$scratch/there"
compare functions
cp "$scratch/there" "$scratch/here"
sed -nE 's/^function (\w+):.*/\1/p' "$abi" >"$scratch/there"
compare "functions proved"

{
    grep -ohE '^#define (ACL|MAX|UCE)_\w+ .+' $headers | awk '$2 !~ /^ACL_(FUNC_VISIBILITY|DEPRECATED)/ { print $2 }'
    grep -oE 'static const \w+ \w+' "$scratch/plain" | awk '{ print $4 }'
    grep -oE 'enum [a-zA-Z]* ?\{[^}]*\}' "$scratch/plain" | sed 's/.*{//; s/}//' | tr ',' '\n' | awk 'NF { print $1 }'
} >"$scratch/here"
sed -nE 's/^value (\w+) =.*/\1/p' "$abi" >"$scratch/there"
compare values

{
    grep -oE 'typedef [^{};()]*;|\} \w+;' "$scratch/plain" | grep -oE '\w+;' | tr -d ';'
    grep -oE 'typedef [^{};()]*\(\*\w+\)' "$scratch/plain" | grep -oE '\w+\)' | tr -d ')'
} >"$scratch/here"
sed -nE 's/^(type|enum|struct|union) (\w+):.*/\2/p' "$abi" >"$scratch/there"
compare types

grep -oE '(struct|union) ?\w* \{[^}]*\} \w+;' "$scratch/plain" | while read -r layout; do
    type=${layout##*\} }
    sed -E 's/.*\{//; s/\}.*//; s/\[[^]]*\]//g' <<<"$layout" | tr ';' '\n' | awk -v type="${type%;}" 'NF { print type "." $NF }'
done | sed 's/\.\**/./' >"$scratch/here"
sed -nE 's/^field ([a-zA-Z.]+):.*/\1/p' "$abi" >"$scratch/there"
compare fields

grep -oE '\bX\(acl\w+' "$functions" | sed 's/X(//' >"$scratch/there"
grep -ohE '\bacl\w+' tests/ascendcl/programs/*.c tests/ascendcl/programs/*.h | sort -u >"$scratch/named"
for name in $(sort "$scratch/there" | comm -23 - "$scratch/named"); do echo "no test of $name" >&2; failures=1; done

[ $failures = 0 ] && echo "$counted: declared, listed and proved alike" || exit 1
