#!/usr/bin/env bash
# The API reference can be built without a warning and has a text for every function that a public header declares. (The
# comment before several declarations without a blank line between them is the text of all of them.)
#   api.sh SOURCE_DIR DOXYFILE DOXYGEN
set -euo pipefail
source_dir=$1 doxyfile=$2 doxygen=$3
[ -x "$doxygen" ] || { echo "skipped: there is no doxygen (script/bootstrap test)"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

{ cat "$doxyfile"; printf '%s\n' "OUTPUT_DIRECTORY = \"$scratch\"" GENERATE_XML=YES XML_PROGRAMLISTING=NO; } >"$scratch/Doxyfile"
"$doxygen" "$scratch/Doxyfile" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; echo "doxygen warns" >&2; exit 1; }

# Prints "name yes" or "name no" for each function of the reference: yes if it has a text.
cat "$scratch"/xml/*.xml | awk '
    /<memberdef kind="function".* prot="public"/ { inside = 1; text = "no"; name = "" }
    inside && name == "" && /<name>/ { name = $0; gsub(/.*<name>|<\/name>.*/, "", name) }
    inside && /<para>/ { text = "yes" }
    inside && /<\/memberdef>/ { print name, text; inside = 0 }' | sort -u >"$scratch/reference"

# Removes macros and comments, joins lines, and takes the last name before the first parenthesis of each declaration.
find "$source_dir"/{core,allocators,bindings,benchmarks} -path '*/include/weir/*.h*' -exec cat {} + |
    grep -v '^#' | tr '\n' ' ' | sed -E 's,/\*([^*]|\*+[^*/])*\*+/, ,g' |
    grep -oE '\b(WEIR_API|ACL_FUNC_VISIBILITY) [^;()]*\(' | grep -oE '[a-z_0-9]+ *\($' | tr -d ' (' | sort -u >"$scratch/declared"
[ "$(wc -l <"$scratch/declared")" -gt 100 ] || { echo "hardly a declaration found" >&2; exit 1; }

failures=0
complain() { echo "$1" >&2; failures=$((failures + 1)); }
while read -r name; do
    complain "$name is declared and not in the reference"
done < <(cut -d' ' -f1 "$scratch/reference" | sort -u | comm -23 "$scratch/declared" -)
while read -r name _; do
    complain "$name has no comment"
done < <(grep ' no$' "$scratch/reference")

# Pages, links and groups exist: the reference begins with the README, and each header has its group.
grep -q 'stream-ordered pools' "$scratch/html/index.html" || complain 'the first page is not the README'
for header in "$source_dir"/{core,allocators,bindings/{*,*/*,*/*/*},benchmarks/weir/*}/include/weir/*.h*; do
    [ ! -e "$header" ] || grep -lq "<title>weir/${header##*/}</title>" "$scratch"/xml/group__*.xml ||
        complain "weir/${header##*/} has no group in the reference"
done
[ $failures = 0 ] || exit 1
echo "$(wc -l <"$scratch/declared") functions, all in the reference and all explained"
