#!/usr/bin/env bash
# Writes KILLS.md: which test programs find which bugs.
#
#   table.sh BIN_DIR RESULTS_DIR [SECONDS]    every program in BIN_DIR that takes at most SECONDS (0.5) without a bug
#
# The build is that of the preset mutants, with all test programs that are to be tried. A run that is taken up again keeps the
# results that it has. All programs must be of one build: a program that does not know a bug fails too.
set -uo pipefail
bin=$(cd "$1" && pwd) results=$2 most=${3:-0.5}
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
cd "$source_dir"
folder=tests/project/mutants
mkdir -p "$results"
results=$(cd "$results" && pwd)

# What a program is run with: few random programs.
few() { # TEST
    case $1 in
    contract.device_*) ;;
    contract.*) echo "1 1" ;;
    fault.pool_fault) echo 1 ;;
    esac
}

run() { # MUTANT TEST LOG; prints seconds and exit status
    local start status=0
    start=$(date +%s%N)
    # shellcheck disable=SC2046
    WEIR_SEEDS=40 WEIR_ROUNDS=200 WEIR_FAULT_STEP=7 WEIR_MUTANT=$1 timeout 20 "$bin/test_${2/./_}" $(few "$2") >"$3" 2>&1 </dev/null || status=$?
    echo "$2 $(((($(date +%s%N) - start) + 5000000) / 10000000)) $status"
}

row() { # SEED
    local name test
    name=$(basename "$1" .diff)
    [ ! -e "$results/$name.row" ] || return 0
    while read -r test; do
        run "$name" "$test" "$results/row.$name.log"
    done <"$results/programs" >"$results/$name.part"
    mv "$results/$name.part" "$results/$name.row"
    rm -f "$results/row.$name.log"
}
export -f run row few
export bin results

if [ ! -e "$results/programs" ]; then
    for program in "$bin"/test_*; do
        test=${program##*/test_}
        run none "${test/_/.}" "$results/none.log"
    done >"$results/alone"
    awk -v most="$most" '$3 == 0 && $2 <= 100 * most { print $1 }' "$results/alone" >"$results/programs"
fi
seeds=()
for seed in "$folder"/seeds/*.diff; do
    if grep -qE '^build: ' "$seed" || ! grep -qE '^--- .*[.](c|h|cc)$' "$seed"; then continue; fi
    seeds+=("$seed")
done
printf '%s\n' "${seeds[@]}" | sort -V | xargs -P "${JOBS:-$(nproc)}" -I '{}' bash -c 'row {}'

{
    echo "# Which test finds which bug"
    echo
    echo "Written by \`tests/project/mutants/table.sh\` on $(date +%F) at $(git rev-parse --short HEAD), on $(nproc) cores ($(sed -nE 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1))"
    echo "that also did other work. $(wc -l <"$results/programs") programs were tried, those that take at most $most s without a bug; random"
    echo "programs with 40 seeds, contracts with one. Seconds are those of the failing run; (t): the run came to no end in 20 s."
    echo
    echo "| bug | found by |"
    echo "| --- | --- |"
    for seed in $(printf '%s\n' "${seeds[@]}" | sort -V); do
        name=$(basename "$seed" .diff)
        awk -v name="$name" '
            $3 != 0 && $3 != 77 { found = found (found != "" ? ", " : "") sprintf("%s %.2f%s", $1, $2 / 100, $3 == 124 ? " (t)" : "") }
            END { printf "| %s | %s |\n", name, found }' "$results/$name.row"
    done
    echo
    echo "## Bugs that one of these programs finds"
    echo
    for seed in $(printf '%s\n' "${seeds[@]}" | sort -V); do
        name=$(basename "$seed" .diff)
        awk -v name="$name" '$3 != 0 && $3 != 77 { count++; last = $1 } END { if (count == 1) printf "- %s: %s\n", name, last }' "$results/$name.row"
    done
    echo
    echo "## Bugs that none of these programs finds"
    echo
    for seed in $(printf '%s\n' "${seeds[@]}" | sort -V); do
        name=$(basename "$seed" .diff)
        awk '$3 != 0 && $3 != 77 { found = 1 } END { exit !found }' "$results/$name.row" ||
            echo "- $name, killed by \`$(sed -nE 's/^killer: *//p' "$seed")\`"
    done
    echo
    echo "## Programs that find none of these bugs"
    echo
    sort "$results/programs" | comm -23 - <(awk '$3 != 0 && $3 != 77 { print $1 }' "$results"/*.row | sort -u) | paste -sd, | sed 's/,/, /g' | fold -s -w 118 | sed 's/ *$//'
    echo
    echo "## Programs that were not tried"
    echo
    awk -v most="$most" '$3 == 77 { print $1 " (skips)" } $3 != 0 && $3 != 77 { print $1 " (fails with these settings)" } $3 == 0 && $2 > 100 * most { printf "%s (%.1f s)\n", $1, $2 / 100 }' "$results/alone" |
        paste -sd, | sed 's/,/, /g' | fold -s -w 118 | sed 's/ *$//'
} >$folder/KILLS.md
