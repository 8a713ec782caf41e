#!/usr/bin/env bash
# Test programs of weir on the vendor's runtime: a test fails there if and only if programs.txt has a row for it.
#   programs.sh runtime=FOLDER DRIVER_FOLDER CC CONTROLS BIN_FOLDER
set -euo pipefail
cd "$(dirname "$0")"
. ./rig.sh
use_runtime "$1" "$2" "$3"
controls=$4 bin=$5
export WEIR_DRIVER_RUNTIME_MEMORY=0 WEIR_DRIVER_CAPACITY=268435456 # as the tests of `acl` set them for the simulated runtime
differs=0 limit=${WEIR_LIMIT:-120} # seconds for each program

# Prints the tests of a cmocka program that failed, or "(the program)" if it did not come to its end; its output then ends with the
# reason.
failures() {
    local program=$1 status=0
    on_vendor "$controls" timeout "$limit" "$bin/$program" >"$scratch/out" 2>&1 || status=$?
    sed -n 's/^\[  FAILED  \] \([A-Za-z_0-9]*\)$/\1/p' "$scratch/out" | sort -u
    if [ "$status" != 0 ] && ! grep -q '^\[==========\] .* test(s) run' "$scratch/out"; then
        echo "(the program)"
        case $status in
        124) echo "$program: stopped after $limit s" ;;
        *) echo "$program: ended with $status" ;;
        esac >>"$scratch/out"
    fi
}

while IFS=$'\t' read -r program; do
    [ -x "$bin/$program" ] || { echo "$program is not built" >&2; exit 1; }
    failures "$program" >"$scratch/failed"
    awk -F'\t' -v program="$program" '$1 == program && NF == 3 { print $2 }' programs.txt | sort -u >"$scratch/known"
    passed=$(grep -c '^\[       OK \]' "$scratch/out" || true)
    echo "$program: $passed passed, $(wc -l <"$scratch/failed") did not"
    while read -r name; do
        awk -F'\t' -v program="$program" -v name="$name" '$1 == program && $2 == name { print "  known: " name ": " $3 }' programs.txt
    done < <(comm -12 "$scratch/known" "$scratch/failed")
    comm -13 "$scratch/known" "$scratch/failed" | sed 's/^/  fails without a row: /' | tee "$scratch/new"
    comm -23 "$scratch/known" "$scratch/failed" | sed 's/^/  passes in spite of its row: /' | tee -a "$scratch/new"
    [ ! -s "$scratch/new" ] || { differs=1; cat "$scratch/out"; }
done < <(awk -F'\t' '!/^#/ && NF > 0 { print $1 }' programs.txt | sort -u)
exit $differs
