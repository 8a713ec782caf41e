#!/usr/bin/env bash
# A folder has at least one assertion for so many lines of code.    assertions.sh SOURCE_DIR
# A line of code is a line of a source or a private header that is neither empty nor a comment. An assertion stands at the
# beginning of its line: WEIR_ASSERT, WEIR_ASSERT_THOROUGH, WEIR_ASSERT_FULL or WEIR_ASSERT_HELD (core/shared/assert.h).
set -euo pipefail
cd "$1"
failures=0

# check_folder FOLDER MOST_LINES
check_folder() {
    local lines assertions
    lines=$(find "$1" -name '*.[ch]' -exec cat {} + | grep -cvE '^[[:space:]]*(/?\*|$)')
    assertions=$(find "$1" -name '*.[ch]' -exec cat {} + | grep -cE '^[[:space:]]+WEIR_ASSERT(_[A-Z]+)?\(')
    echo "$1: $assertions assertions in $lines lines of code, one in $((lines / assertions))"
    [ $((assertions * $2)) -ge "$lines" ] || { echo "$1: fewer than one assertion in $2 lines" >&2; failures=1; }
}

check_folder core/src 27
check_folder allocators/src 30
check_folder bindings/host/pool/src 32
check_folder bindings/ascendcl/src 30
for folder in ascend/acl/src ascend/mstx ascend/torch cuda/device/src cuda/torch host/heap/src host/preload/src sim/src torch/src; do
    check_folder bindings/$folder 40
done
exit $failures
