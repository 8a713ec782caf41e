#!/usr/bin/env bash
# boot.sh LOG SECONDS PROGRAM... -- QEMU ARGUMENT...: boots an emulated machine whose init is that of initrd.sh, for at
# most SECONDS, and keeps its console in LOG. Passes when every program has exited with 0.
set -euo pipefail
log=$1 seconds=$2
shift 2
programs=()
while [ "$1" != -- ]; do programs+=("$(basename "$1")"); shift; done
shift
start=$SECONDS
timeout "$seconds" "$@" >"$log" 2>&1 </dev/null || true
status=0
for name in "${programs[@]}"; do
    if ! grep -q "^WEIR-RC $name=0[[:space:]]*$" "$log"; then
        echo "$name failed in the machine; its console: $log" >&2
        status=1
    fi
done
[ $status = 0 ] || { tail -n 200 "$log" >&2; exit 1; }
echo "${#programs[@]} programs in $((SECONDS - start)) s"
