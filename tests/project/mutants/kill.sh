#!/usr/bin/env bash
# Checks that a test finds a bug that has been built in.
#
#   kill.sh BIN_DIR RESULTS_DIR SEED            the seed's killer must fail, and print the finding that the seed expects
#   kill.sh BIN_DIR RESULTS_DIR none KILLER     the same program must pass without the bug; otherwise its failure proves nothing
#   kill.sh BIN_DIR RESULTS_DIR hunt SEED...    runs every test program and names those that find the bug
#
# If a killer skips, because the build does not have it, the test of its seeds skips.
#
# A seed in a page or a script is in no program: its killer, a script, runs in a copy of the source tree that has the bug.
#
# A killer is the name of a test, and optionally settings of its environment and arguments: "stress.pool_random
# WEIR_SEEDS=200". A seed whose bug needs a race says "tries: N" in its head: one of N runs of its killer must find it.
# The other seeds are found by every run.
set -ufo pipefail # -f: killers hold patterns
bin=$1 results=$2 what=$3
shift 3
seconds=120 # limit for one run of a killer, for one that hangs; CMakeLists.txt makes ctest wait longer
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
tree= # the copy of the source tree, if the seed has one
mkdir -p "$results"
usual_words='finding: |check: |: memory |invariant|ERROR: |WARNING: |!=|error: ' # of programs that have found something

value() { sed -nE "/^--- /q; s/^$1: *//p" "$2"; } # KEY SEED

run() { # MUTANT LOG TEST [SETTING=... | ARGUMENT]...
    local mutant=$1 log=$2 program=$bin/script_${3/./_} word settings=() arguments=()
    shift 3
    [ -x "$program" ] || program=$bin/test_${program##*/script_} # a script's test may have a helper of that name
    [ -x "$program" ] || { echo "there is no $program" >&2; return 126; }
    for word in "$@"; do
        case $word in
        *=*) settings+=("$word") ;;
        *) arguments+=("$word") ;;
        esac
    done
    if [ -n "$tree" ]; then
        sed "s|'$source_dir|'$tree|g; s|'$tree/build/|'$source_dir/build/|g" "$program" >"$tree/killer"
        timeout "$seconds" sh "$tree/killer" "${arguments[@]}" >"$log" 2>&1
        return
    fi
    env WEIR_MUTANT="$mutant" "${settings[@]}" timeout "$seconds" "$program" "${arguments[@]}" >"$log" 2>&1
}

# Makes a copy of the source tree for a seed that is in no program: the killer may write to it.
plant() { # SEED
    local path
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    (cd "$source_dir" && find . \( -path ./build -o -path ./.git \) -prune -o -type f -print0 | xargs -0 cp --parents -t "$tree")
    while IFS= read -r path; do
        awk -v path="$path" -f "$source_dir/tests/project/mutants/seed.awk" "$1" "$source_dir/$path" >"$tree/fresh" || return
        cat "$tree/fresh" >"$tree/$path"
    done < <(sed -nE 's/^--- //p' "$1" | sort -u)
}

case $what in
none)
    log=$results/none.${1//[^A-Za-z0-9.=]/_}.log
    run none "$log" $1
    status=$?
    [ $status != 77 ] || { cat "$log"; exit 77; }
    if [ $status = 0 ] && ! grep -qF '[  PASSED  ] 0 test(s)' "$log"; then
        echo "$1 passes without a bug"
        exit 0
    fi
    tail -n 40 "$log"
    echo "$1 fails without any bug, or tests nothing"
    exit 1
    ;;
hunt)
    for seed in "$@"; do
        name=$(basename "$seed" .diff)
        while IFS= read -r program; do
            test=${program##*/test_}
            log=$results/hunt.$name.$test.log
            WEIR_SEEDS=${WEIR_SEEDS:-500} run "$name" "$log" "${test/_/.}" && continue
            status=$?
            echo "$name: ${test/_/.} ($status): $(grep -m 1 -E "$usual_words" "$log" | cut -c1-160)"
        done < <(find "$bin" -name 'test_*' | sort)
    done
    exit 0
    ;;
esac

name=$(basename "$what" .diff)
killer=$(value killer "$what")
finding=$(value finding "$what")
tries=$(value tries "$what")
log=$results/$name.log
grep -qE '^--- .*[.](c|h|cc)$' "$what" || plant "$what" || exit 1
start=$(date +%s%N)
for ((try = 1; try <= ${tries:-1}; try++)); do
    run "$name" "$log" $killer
    status=$?
    [ $status = 0 ] || break
done
took=$((($(date +%s%N) - start) / 1000000))
rm -f "$results/$name.killed"
if [ $status = 77 ]; then
    cat "$log"
    exit 77
elif [ $status = 0 ]; then
    echo "$name SURVIVED: $killer passes ${tries:-1} times although $(value bug "$what")"
elif [ $status = 124 ] || [ $status = 126 ]; then
    echo "$name: $killer came to no end"
elif ! grep -qF -- "$finding" "$log"; then
    tail -n 40 "$log"
    echo "$name: $killer fails, but says nothing of \"$finding\""
else
    echo "$name: killed by $killer in $took ms: $(grep -m 1 -F -- "$finding" "$log" | cut -c1-200)"
    printf '%s.%03d\n' $((took / 1000)) $((took % 1000)) >"$results/$name.killed"
    exit 0
fi
exit 1
