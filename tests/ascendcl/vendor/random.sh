#!/usr/bin/env bash
# Random programs on the simulated and on the vendor's runtime: every difference has a reason in known_differences.txt.
#   random.sh runtime=FOLDER DRIVER_FOLDER CC CONTROLS BIN_FOLDER
#   WEIR_PROGRAMS in the environment is the number of programs of each kind (100), WEIR_SEED the first one's seed (1), WEIR_KINDS
#   the kinds ("programs captures pool").
set -euo pipefail
cd "$(dirname "$0")"
. ./rig.sh
use_runtime "$1" "$2" "$3"
controls=$4 bin=$5
count=${WEIR_PROGRAMS:-100} seed=${WEIR_SEED:-1} differs=0

# run_both KIND COUNT SEED
run_both() {
    # The driver of these tests plays no firmware, which would announce what is newer.
    WEIR_ASCENDCL_REPORT=none WEIR_ASCENDCL_OLD_DRIVER=1 "$bin/vendor_random_$1" "$2" "$3" >"$scratch/simulated"
    on_vendor "$controls" "$bin/vendor_random_$1" "$2" "$3" >"$scratch/vendor" || echo "$1: ended with $?" >&2
}

compare() {
    awk -f compare.awk -v second="$scratch/vendor" known_differences.txt "$scratch/simulated"
}

# agrees_once KIND SEED: a pool takes other memory if it does not know yet that work is over, and on the vendor's runtime that depends
# on real time. So a program of a pool that differed is run again, at most five times, and has to agree once.
agrees_once() {
    local i
    for i in 1 2 3 4 5; do
        run_both "$1" 1 "$2"
        if compare >/dev/null; then return 0; fi
    done
    return 1
}

for kind in ${WEIR_KINDS:-programs captures pool}; do
    [ -x "$bin/vendor_random_$kind" ] || { echo "vendor_random_$kind is not built" >&2; exit 1; }
    echo "random $kind:"
    run_both "$kind" "$count" "$seed"
    compare >"$scratch/compared" && status=0 || status=1
    cat "$scratch/compared"
    if [ "$status" = 1 ] && [ "$kind" = pool ]; then
        mapfile -t other < <(sed -nE 's/^((only the first|only the second|two ways): )?([0-9]+)\.[0-9]+ .*/\3/p' "$scratch/compared" | sort -un)
        status=0
        for one in "${other[@]}"; do
            agrees_once "$kind" "$one" && echo "$one: agrees when it is repeated" || { echo "$one: differs for good"; status=1; }
        done
        [ ${#other[@]} -gt 0 ] || status=1
    fi
    [ "$status" = 0 ] || differs=1
done
exit $differs
