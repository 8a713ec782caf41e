#!/usr/bin/env bash
# The driver's declarations agree with the vendor's.    layout.sh CC INCLUDE_DIR...
set -euo pipefail
cc=$1
shift
for dir in "$@"; do
    for include in "$dir" "$dir/ascend_hal" "$dir/../pkg_inc" "$dir/../../pkg_inc"; do
        if [ -e "$include/driver/ascend_hal.h" ]; then
            "$cc" -std=gnu11 -w -I"$(dirname "$0")" -isystem "$include" -fsyntax-only "$(dirname "$0")/layout.c"
            echo "the declarations agree with those of $include/driver"
            exit 0
        fi
    done
done
echo "skipped: WEIR_CANN_INCLUDE names no folder with the vendor's driver/ascend_hal.h"
exit 77
