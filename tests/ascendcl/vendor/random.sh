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
for kind in ${WEIR_KINDS:-programs captures pool}; do
    program=$bin/vendor_random_$kind
    [ -x "$program" ] || { echo "$program is not built" >&2; exit 1; }
    # The driver of these tests plays no firmware, which would announce what is newer.
    WEIR_ASCENDCL_REPORT=none WEIR_ASCENDCL_OLD_DRIVER=1 "$program" "$count" "$seed" >"$scratch/simulated"
    on_vendor "$controls" "$program" "$count" "$seed" >"$scratch/vendor" || echo "$kind: ended with $?" >&2
    echo "random $kind:"
    awk -f compare.awk -v second="$scratch/vendor" known_differences.txt "$scratch/simulated" || differs=1
done
exit $differs
